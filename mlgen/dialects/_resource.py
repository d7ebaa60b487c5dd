"""A custom resource that is read in several steps."""

from mlgen.dialects._builder import Builder


class Resource:
    """A custom resource, which a subclass reads.

    Attributes:
        builder: of the TrainingJob.
        spec: of the custom resource.
        put: writes into the TrainingJob; see `Builder`.
        report: reports a problem; see `Builder`.
    """

    def __init__(self, builder: Builder) -> None:
        self.builder, self.spec = builder, builder.spec
        self.put, self.report = builder.put, builder.report

    @property
    def gang(self) -> str:
        """The gang scheduling of the TrainingJob as far as it is written; "" without one."""
        return str(self.builder.data["spec"].get("scheduling", {}).get("gang", ""))
