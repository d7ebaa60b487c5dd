"""The options of a rendering, and its result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from mlgen import options
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.versions import DEFAULT, KubeVersion
from mlgen.options import Settings
from mlgen.problems import Problem

if TYPE_CHECKING:
    from mlgen.checks.prerequisites import Prerequisite
    from mlgen.documents.document import Document
    from mlgen.jobfile.model import TrainingJob
    from mlgen.site import Site
    from mlgen.topology import Topology
    from mlgen.variants.gitops import Tool
    from mlgen.variants.matrix import Axes, Combination


@dataclass(frozen=True, init=False)
class Options:
    """Options for rendering, the same as on the command line. Immutable.

    Use `dataclasses.replace` to change an option.

    Attributes:
        kube_version: Kubernetes version of the cluster, `"1.31"` to `"1.37"`. As `--kube-version`.
        namespace: namespace of every job. Overrides the job file. As `--namespace`.
        settings: values to override in every job file, by path: `{"spec.env.LR": "0.1"}`. For a
            custom resource, use paths of the equivalent job file. As `--set`.
        matrix: lists of values by path: `{"args.lr": ["1e-4", "1e-5"]}`. Every job is rendered once
            for each combination. A path replaces the same path of `spec.matrix`. As `--matrix`.
        supervisor: False renders jobs without a supervisor. As `--no-supervisor`.
        workflow: True renders for an Argo workflow, which runs, restarts and deletes the job. As
            `mlgen argo`.
        jobset: True renders one JobSet, for clusters with its controller. As `--as jobset`.
        target: GitOps tool that applies the manifests: `"argocd"` or `"flux"`. As `--for`.
        default_namespace: namespace of jobs that have none.
        site: defaults from `mlgen.toml`. `site_options` sets it.
        only_jobs: True rejects every object that is not a job. As `--only-jobs`.
        strict: True reports warnings as errors. As `--strict`.
    """

    kube_version: KubeVersion
    namespace: str | None
    settings: Settings
    matrix: "Axes"
    supervisor: bool
    workflow: bool
    jobset: bool
    target: "Tool | None"
    default_namespace: str | None
    site: "Site | None"
    only_jobs: bool
    strict: bool

    def __init__(  # noqa: PLR0913 - one for each option
        self,
        kube_version: str | tuple[int, int] = DEFAULT,
        namespace: str | None = None,
        settings: Mapping[str, Any] | Settings = (),
        matrix: "Mapping[str, Sequence[Any]] | Axes" = (),
        *,
        supervisor: bool = True,
        workflow: bool = False,
        jobset: bool = False,
        target: "Tool | None" = None,
        default_namespace: str | None = None,
        site: "Site | None" = None,
        only_jobs: bool = False,
        strict: bool = False,
    ) -> None:
        given = dict(locals())
        del given["self"]
        for name, value in options.kept(given).items():
            object.__setattr__(self, name, value)
        if jobset and (target or workflow):
            raise ValueError("jobset cannot be combined with workflow or target")


@dataclass(frozen=True)
class Rendered:
    """One rendered job.

    Attributes:
        file: name of the file that contains the job.
        document: the job file, or the equivalent job file of a custom resource. `document.data` is
            a mapping.
        job: the job as mlgen understands it, with `name`, `namespace` and `framework`. It includes
            policies that a workflow or a GitOps tool takes over.
        kube_version: Kubernetes version of the objects.
        topology: the replicas with their addresses and waits. Internal.
        objects: Kubernetes objects, in the order in which to apply them.
        prerequisites: objects that the job refers to, but that the input does not contain. Empty
            for tools that see only a part of the manifests.
        settings: lines to add to the configuration of the GitOps tool.
        reapply: how to apply the job again; "" if any way is right, or a GitOps tool applies it.
        combination: values of the matrix for this job. None without a matrix.
    """

    file: str
    document: "Document"
    job: "TrainingJob"
    kube_version: KubeVersion
    topology: "Topology"
    objects: tuple[Object, ...]
    prerequisites: "tuple[Prerequisite, ...]" = ()
    settings: tuple[str, ...] = ()
    reapply: str = ""
    combination: "Combination | None" = None

    def __repr__(self) -> str:
        return f"<Rendered {self.name}: {self.job.framework}, {len(self.objects)} objects>"

    @property
    def name(self) -> str:
        """The name of the job."""
        return self.job.name

    @property
    def namespace(self) -> str | None:
        """The namespace of the job. None for the current one of kubectl."""
        return self.job.namespace


@dataclass(frozen=True)
class Foreign:
    """An object that is not a job, such as a ConfigMap. It passes through unchanged.

    Attributes:
        document: the object as read. `document.data` is a mapping.
    """

    document: "Document"

    @property
    def objects(self) -> tuple[Object, ...]:
        """The object, as a tuple of one."""
        return (self.document.data,)


class Output(NamedTuple):
    """The output of a conversion or a comparison, and the warnings about its input.

    Rendered manifests are in parts instead, because they can be large.
    """

    text: str
    warnings: tuple[Problem, ...]


@dataclass(frozen=True)
class Result:
    """All jobs and other objects of the input, in order, and the problems.

    Attributes:
        parts: rendered jobs and other objects.
        problems: warnings and errors, in the order of reporting.
        invalid: number of documents that could not be rendered.
    """

    parts: tuple[Rendered | Foreign, ...]
    problems: tuple[Problem, ...]
    invalid: int = 0

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The warnings, which do not prevent rendering."""
        return tuple(problem for problem in self.problems if problem.warning)

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The errors. Always empty here: the public functions raise them as `MlgenError`."""
        return tuple(problem for problem in self.problems if not problem.warning)

    @property
    def jobs(self) -> list[Rendered]:
        """The rendered jobs, without other objects."""
        return [part for part in self.parts if isinstance(part, Rendered)]

    @property
    def others(self) -> list[Foreign]:
        """The other objects, without jobs."""
        return [part for part in self.parts if isinstance(part, Foreign)]

    @property
    def objects(self) -> list[Object]:
        """All Kubernetes objects, in the order in which to apply them."""
        return [item for part in self.parts for item in part.objects]
