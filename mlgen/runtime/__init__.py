"""The programs that run in the cluster: the supervisor of a job, and the step of a workflow.

The files of this folder travel in the job's ConfigMap, mounted at `/mlgen/runtime`, and start with
`python3 -m mlgen.runtime.supervise` in the working directory `/`. There is no `mlgen/__init__.py`
in the pod, so `mlgen` is a namespace package (PEP 420) and every import reads the same in the pod,
in tests and under mypy. The code needs Python 3.9 and its standard library only.

To read: `plan` says what to supervise, and `decide` is a pure function from what is observed
(`cluster`, `failures`) and what is known (`status`) to what to do; `gang` is its part that restarts
replicas together. `supervise` is the loop around it, `memory` what it keeps between two passes,
`api` the client of the API server, `step` the step of Argo Workflows, and `attempt` its decisions.
"""
