"""The operator of docs/integrations/airflow.md, without Airflow."""

import logging
import sys
from types import ModuleType

from pages import DOCS, blocks

PAGE = DOCS / "integrations/airflow.md"


class BaseOperator:
    """Stands for Airflow's class. It accepts only the options that the page uses."""

    log = logging.getLogger("airflow")

    def __init__(self, task_id, retries):
        self.task_id, self.retries = task_id, retries


def operator(monkeypatch):
    """Run the page's DAG file, and return its operator."""
    airflow = ModuleType("airflow.sdk")
    airflow.BaseOperator = BaseOperator
    airflow.dag = lambda **_: lambda function: function
    monkeypatch.setitem(sys.modules, airflow.__name__, airflow)
    (code,) = [block.text for block in blocks(PAGE) if block.language == "python"]
    scope = {}
    exec(compile(code, str(PAGE), "exec"), scope)
    return scope["Train"]
