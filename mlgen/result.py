"""What a caller asks for, and what it gets back."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.versions import DEFAULT, KubeVersion
from mlgen.problems import Problem, ValuePath

if TYPE_CHECKING:
    from mlgen.checks.prerequisites import Prerequisite
    from mlgen.documents.document import Document
    from mlgen.jobfile.model import TrainingJob
    from mlgen.site import Site
    from mlgen.topology import Topology
    from mlgen.variants.gitops import Target
    from mlgen.variants.matrix import Combination


@dataclass(frozen=True)
class Options:
    """Options of a rendering, besides the files.

    Attributes:
        kube_version: of the cluster, one of `kubernetes.versions.SUPPORTED`.
        namespace: overrides the namespace of every job.
        settings: values that override those of every job file, by path; for a custom resource,
            those of the equivalent job file.
        matrix: paths, each with its values; every job is rendered once for each combination. They
            replace those of the same paths in a job file.
        supervisor: False leaves the supervisor out of every job.
        workflow: an Argo workflow runs each job, restarts it, cleans up and deletes it.
        target: the GitOps tool that applies the manifests, if one does.
        default_namespace: the namespace of a job that has none.
        site: defaults of the fields that job files do not set; the other options here are decided
            already.
        only_jobs: any other object is an error, instead of passing through.
    """

    kube_version: KubeVersion = DEFAULT
    namespace: str | None = None
    settings: tuple[tuple[ValuePath, Any], ...] = ()
    matrix: tuple[tuple[ValuePath, tuple[Any, ...]], ...] = ()
    supervisor: bool = True
    workflow: bool = False
    target: "Target | None" = None
    default_namespace: str | None = None
    site: "Site | None" = None
    only_jobs: bool = False


@dataclass(frozen=True)
class Rendered:
    """One rendered job.

    Attributes:
        file: the file that holds the job, as the user knows it.
        document: the job file, or the equivalent job file of a custom resource.
        job: the job with all of its policies; `topology.job` lacks those that a workflow or a
            GitOps tool takes over.
        kube_version: of the cluster that the objects are for.
        objects: in the order in which they are applied.
        prerequisites: what the objects name, and the files do not bring; () where a tool has only
            some of the manifests that are applied together.
        settings: lines on what the GitOps tool's own configuration needs for the job.
        combination: of the matrix that the job is one of, if there is one.
    """

    file: str
    document: "Document"
    job: "TrainingJob"
    kube_version: KubeVersion
    topology: "Topology"
    objects: tuple[Object, ...]
    prerequisites: "tuple[Prerequisite, ...]" = ()
    settings: tuple[str, ...] = ()
    combination: "Combination | None" = None


@dataclass(frozen=True)
class Foreign:
    """An object beside the jobs, such as a ConfigMap, which passes through unchanged."""

    document: "Document"

    @property
    def objects(self) -> tuple[Object, ...]:
        """The object alone."""
        return (self.document.data,)


@dataclass(frozen=True)
class Result:
    """All jobs and other objects of all files, in their order, and the problems.

    Attributes:
        parts: what could be rendered.
        problems: in the order of reporting.
        invalid: the number of documents that could not be rendered.
    """

    parts: tuple[Rendered | Foreign, ...]
    problems: tuple[Problem, ...]
    invalid: int = 0

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The problems that do not prevent rendering."""
        return tuple(problem for problem in self.problems if problem.warning)

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that prevent rendering; the public functions raise them instead."""
        return tuple(problem for problem in self.problems if not problem.warning)

    @property
    def jobs(self) -> list[Rendered]:
        """The jobs alone."""
        return [part for part in self.parts if isinstance(part, Rendered)]

    @property
    def others(self) -> list[Foreign]:
        """The other objects alone."""
        return [part for part in self.parts if isinstance(part, Foreign)]

    @property
    def objects(self) -> list[Object]:
        """Every object, in the order in which they are applied."""
        return [item for part in self.parts for item in part.objects]
