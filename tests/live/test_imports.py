"""What the commands that run kubectl import, and what the others do not."""

import subprocess
import sys


def test_rich_is_imported_for_a_live_table_alone():
    modules = ["mlgen.live.watch", "mlgen.live.follow", "mlgen.live.delete", "mlgen.live.doctor"]
    modules += [f"mlgen.cli.{name}" for name in ("status", "logs", "wait", "delete", "doctor")]
    code = (
        "import sys\n"
        "import mlgen.cli.render, mlgen.pipeline, mlgen.output.manifests\n"
        "print([name for name in sys.modules if name.startswith('mlgen.live')], end=' ')\n"
        f"import {', '.join(modules)}\n"
        "print('rich' in sys.modules)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[] False\n" == done.stdout
