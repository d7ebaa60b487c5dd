"""A job by name is the job of its file: what the objects in the cluster show of it."""

from support import FIXTURES, RESOURCES, each_file, live_jobs

from mlgen.live.job import by_name
from mlgen.objects.labels import workload_name
from mlgen.show.groups import replicas_of


def shown(job):
    """Return what the commands read of a job."""
    topology, plan = job.topology, job.plan
    scheduling = topology.job.scheduling
    replicas = [
        (workload_name(topology.job, each.role), str(each), each.rank)
        for group in replicas_of(topology).values()
        for each in group.values()
    ]
    roles = {
        workload_name(topology.job, role): (
            role.kind,
            role.index,
            role.decides,
            role.replicas,
            role.spec.main_container,
            [(wait.role, wait.hosts.first, wait.hosts.count, wait.port) for wait in role.waits],
        )
        for role in topology.roles
    }
    return {
        "name": (job.name, job.namespace, topology.job.framework),
        "replicas": sorted(set(replicas)),
        "roles": roles,
        "plan": (plan.deciding, plan.decides, plan.order, plan.workloads),
        "queue": scheduling.queue if scheduling.gang == "kueue" else None,
    }


@each_file(files=[*FIXTURES, *RESOURCES])
def test_the_objects_of_a_job_show_what_its_file_does(file):
    for job in live_jobs(file):
        assert shown(job) == shown(by_name(job.name, job.objects))
