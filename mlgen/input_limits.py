"""Limits on input and output, which protect against hostile input.

Each limit is checked before the work that it limits. Input that exceeds a limit is an error with
the code `too-large`, unless the limit only makes a message or a page shorter. docs/limits.md lists
all limits. They are not options, because the author of a job file must not be able to raise them.
"""

TEXT_BYTES = 64 << 20
"""Bytes of one text: a file, stdin, a ResourceList, and of all texts of one command that keeps them
in memory. No cluster accepts a stream of this size."""

DOCUMENT_BYTES = 1 << 20
"""Bytes of one document that is read whole. A larger object hardly fits in etcd, which limits a
request to 1.5 MiB by default."""

SITE_BYTES = 256 << 10
"""Bytes of mlgen.toml or pyproject.toml. The parser of TOML may need 500 bytes of memory for each
byte."""

SOURCE_BYTES = 4 << 20
"""Bytes of a file in the archive of a program. The supervisor's whole source has 0.2 MB."""

DEPTH = 100
"""Nested mappings and lists in one document. A recursive Python function fails at about 300 levels,
and a pod, the deepest of the usual objects, has 12."""

VALUES = 200_000
"""Values of one document after expansion of aliases. Without aliases, `DOCUMENT_BYTES` is the
stricter limit."""

CHARACTERS = 4 << 20
"""Characters in the keys and values of one document after expansion of aliases, which can repeat a
long text."""

DOCUMENTS = 100_000
"""Documents of one command, counted over all its files."""

NUMBER_DIGITS = 100
"""Characters of a number as written. Python refuses to print integers of more than 4,300 digits,
and the largest number in Kubernetes has 19."""

ROLES = 500
"""Roles of one job. Each role has a Service, a workload and its addresses in all other roles."""

REPLICAS = 100_000
"""Replicas of one role. Kubernetes allows an Indexed Job no more pods at a time
(`maxParallelismForIndexedJob` in kubernetes/pkg/apis/batch/validation)."""

JOB_PODS = 150_000
"""Replicas of one job. No more pods are supported in a cluster
(https://kubernetes.io/docs/setup/best-practices/cluster-large/)."""

COMBINATIONS = 1_000
"""Combinations of a matrix. Rendering them takes seconds. GitHub allows 256."""

MATRIX_PATHS = 100
"""Fields that one combination of a matrix sets. Each of them may be a flag, for which all arguments
are searched."""

JOB_OBJECTS = 25_000
"""Objects rendered for one job, and for all combinations of a matrix."""

FAILED_BYTES = 8 << 20
"""Bytes of the combinations of a matrix with errors. After them, the other combinations are not
checked, because errors mostly repeat each other."""

JOB_BYTES = 64 << 20
"""Bytes of the objects of one job, and of all combinations of a matrix. The largest job on the host
network, with 25,000 objects, has 42 MB."""

BYTES = 1 << 30
"""Bytes that one command writes. Above 8 MiB, they are in a temporary file, not in memory."""

PROBLEMS = 1_000
"""Problems reported for one document. Each one has a hint, which takes time to compute."""

PROBLEMS_OF_COMMAND = 10_000
"""Problems reported by one command."""

MESSAGE = 1_000
"""Characters of a message, and of a hint. A command line in a hint can have any length."""

CHOICES = 500
"""Words among which "did you mean" looks for a similar one."""

DIFF_LINES = 2000
"""Lines of two texts that a diff compares. Between longer texts, it replaces all changed lines."""

PATCH_LINES = 200_000
"""Lines of a file whose differences are printed. Objects that Kubernetes accepts have fewer: they
have at most 1.5 MiB."""

EXPANDED = 128 << 10
"""Characters of a text in which variables are replaced, as each can contain others twice. Linux
limits an argument or a variable to 128 KiB (MAX_ARG_STRLEN in include/uapi/linux/binfmts.h)."""

WORD = 64
"""Characters of a word that "did you mean" compares with others. Most names in Kubernetes have at
most 63."""

COMPARED = 10_000_000
"""Pairs of characters that "did you mean" compares for one document: about a second, or a hundred
hints with `CHOICES` words each. Later problems have no such hint."""

KEPT_BYTES = 384 << 20
"""Bytes of memory for the documents and objects of one command that keeps all of them, as `show`,
`graph` and `diff` do."""

OBJECTS = 500_000
"""Objects rendered by one command that drops each job as soon as it is written: `render`,
`validate`, `argo` and the commands that other tools run."""

OBJECTS_AT_ONCE = 50_000
"""Objects rendered by any other command, which keeps all of them."""
