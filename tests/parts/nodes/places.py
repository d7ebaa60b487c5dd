"""The nodes of a job's pods."""


def pods_of(namespace, workload):
    """Return the pods of a Job or StatefulSet that have not ended, such as `gang-worker`."""
    job, _, role = workload.rpartition("-")
    if role == "supervisor":
        selector = f"batch.kubernetes.io/job-name={workload}"
    else:
        selector = f"mlgen.dev/job={job},mlgen.dev/role={role}"
    pods = namespace.get("pods", "-l", selector)["items"]
    return [pod for pod in pods if pod["status"]["phase"] in ("Pending", "Running")]


def running(namespace, workload, count):
    """Wait until a number of pods of a workload run and are not being deleted; return them."""

    def pods():
        found = [pod for pod in pods_of(namespace, workload) if is_running(pod)]
        return found if len(found) == count else None

    return namespace.until(f"{workload} runs", pods)


def is_running(pod):
    return pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]


def at(namespace, workload):
    """Return the sorted nodes of a workload's running pods that are not being deleted."""
    pods = pods_of(namespace, workload)
    return sorted(pod["spec"]["nodeName"] for pod in pods if is_running(pod))
