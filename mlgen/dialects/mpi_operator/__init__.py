"""MPI operator: MPIJobs of kubeflow.org, in all versions and of both operators that run them.

The training operator runs v1, the MPI operator v2beta1 and, in earlier releases, v1, v1alpha2 and
v1alpha1. v2beta1 uses SSH, the others `kubectl exec`. Each module names the operators' sources.
"""

from mlgen.dialects._dialect import Dialect, Kind
from mlgen.dialects.mpi_operator import schema
from mlgen.dialects.mpi_operator.translation import write_v1, write_v1alpha2, write_v2beta1
from mlgen.dialects.mpi_operator.v1alpha1 import write_v1alpha1

DIALECT = Dialect(
    groups=(),
    kinds={
        ("kubeflow.org/v1", "MPIJob"): Kind(schema.V1, write_v1),
        ("kubeflow.org/v2beta1", "MPIJob"): Kind(schema.V2BETA1, write_v2beta1),
        ("kubeflow.org/v1alpha2", "MPIJob"): Kind(schema.V1ALPHA2, write_v1alpha2),
        ("kubeflow.org/v1alpha1", "MPIJob"): Kind(schema.V1ALPHA1, write_v1alpha1),
    },
)
