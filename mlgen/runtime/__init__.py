"""The programs that run in the cluster: the supervisor of a job, and the step of a workflow.

The job's ConfigMap contains the modules that the job needs in one archive, which is mounted at
`/mlgen`. The command is `python3 /mlgen/supervisor.pyz`, which starts `__main__`. A module that
only some jobs need is imported in a function (`FEATURES` in `mlgen/objects/supervisor.py`). Imports
are the same in the pod, in tests and under mypy. The code needs Python 3.9 and only its standard
library.

`plan` describes the job. `decide` is a pure function from the observed objects (`cluster`,
`failures`) and the stored status (`status`) to the next actions. `gang` restarts replicas together,
`in_place` in their pods, and `stall` finds training that no longer reports progress. `supervise` is
the loop, `memory` its data between two passes, and `api` the client of the API server. `server`
answers the requests of replicas with `reports` (`progress` is their content) and the `gate` of
restarts in place. `step` is the step of Argo Workflows, and `attempt` the decisions of a step.
"""
