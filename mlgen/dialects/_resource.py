"""A custom resource that is read in several steps."""

from mlgen.dialects._builder import Builder


class Resource:
    """A custom resource, which subclasses read.

    Attributes:
        builder: of the TrainingJob.
        spec: of the custom resource.
        put: `Builder.put`.
        refuse: `Builder.refuse`.
        warn: `Builder.warn`.
    """

    def __init__(self, builder: Builder) -> None:
        self.builder, self.spec = builder, builder.spec
        self.put, self.refuse, self.warn = builder.put, builder.refuse, builder.warn

    @property
    def gang(self) -> str:
        """The gang scheduler of the TrainingJob; "" if not written yet."""
        return str(self.builder.data["spec"].get("scheduling", {}).get("gang", ""))
