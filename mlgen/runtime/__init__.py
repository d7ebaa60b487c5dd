"""The programs that run in the cluster: the supervisor of a job, and the step of a workflow.

The job's ConfigMap contains the files of this directory. It is mounted at `/mlgen/runtime`, and the
command is `python3 -m mlgen.runtime.supervise` in the working directory `/`. The pod contains no
`mlgen/__init__.py`, so `mlgen` is a namespace package (PEP 420), and imports are the same in the
pod, in tests and under mypy. The code needs Python 3.9 and only its standard library.

`plan` describes the job. `decide` is a pure function from the observed objects (`cluster`,
`failures`) and the stored status (`status`) to the next actions. `gang` restarts replicas together.
`supervise` is the loop, `memory` its data between two passes, and `api` the client of the API
server. `server` receives requests of replicas, `reports` keeps their reports of progress,
`progress` describes it in the status, and `stall` detects silence. `step` is the step of Argo
Workflows, and `attempt` the decisions of a step.
"""
