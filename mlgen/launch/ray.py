"""Rules about `ray start` and `ray job submit`."""

import re
from collections.abc import Iterator, Sequence

from mlgen.jobfile.model import is_below
from mlgen.launch.line import lines_of
from mlgen.launch.role import JobRole, Launched, of_all_roles, of_launchers, of_roles
from mlgen.problems import Problem, warning
from mlgen.shell import is_python

IMAGE = r"(?:.*/)?ray(?:-ml|-llm)?:(\d+\.\d+\.\d+)(?:[.-][^/]*)?"
"""An image of Ray, with its version."""


@of_launchers
def other_port_of_head(launched: Launched) -> Iterator[Problem]:
    """Report an address of the head with a port at which it does not listen.

    wrong:
        framework: ray
        roles:
          head: {}
          worker: {command: [ray, start, --block, "--address=example-head-0.example:6380"]}
          submitter: {command: [ray, job, submit, --, python, tune.py]}
    right:
        framework: ray
        roles:
          head: {}
          worker: {command: [ray, start, --block, "--address=example-head-0.example:6379"]}
          submitter: {command: [ray, job, submit, --, python, tune.py]}
    """
    raw, job = launched.raw, launched.job
    if raw.program != "ray" or "head" not in job.roles or job.framework != "ray":
        return
    address = raw.literal("address") or ""
    found = re.search(r":(\d{1,5})/?$", address)
    if job.network.on_host or not found or not re.search(r"-head-0\b", address[: found.start()]):
        return
    head = job.roles["head"]
    lines = lines_of(head)
    starts = [each for each in lines.launches if each.script[:1] == ("start",)]
    option = "port" if raw.script[:1] == ("start",) else "dashboard_port"
    if (lines.words and not starts) or any(
        option in each.options and not each.number(option) for each in starts
    ):
        return
    default = (head.port or 6379) if option == "port" else 8265
    own = next((number for each in starts if (number := each.number(option))), default)
    if int(found[1]) != own:
        flag = f"--address={address}"
        message = f"{flag}, but the head listens on port {own}"
        yield launched.error(message, f"write {flag.replace(f':{found[1]}', f':{own}')}")


@of_launchers
def ray_start(launched: Launched) -> Iterator[Problem]:
    """Report `ray start` that ends at once, starts a second cluster, or hides its dashboard.

    https://docs.ray.io/en/latest/cluster/cli.html#ray-start

    wrong:
        framework: ray
        roles:
          head: {command: [ray, start, --head]}
          worker: {}
          submitter: {command: [ray, job, submit, --, python, tune.py]}
    wrong:
        framework: ray
        roles:
          head: {}
          worker: {command: [ray, start, --head, --block]}
          submitter: {command: [ray, job, submit, --, python, tune.py]}
    right:
        framework: ray
        roles:
          head: {command: [ray, start, --head, --block, --dashboard-host=0.0.0.0]}
          worker: {}
          submitter: {command: [ray, job, submit, --, python, tune.py]}
    """
    raw, role = launched.raw, launched.role
    if raw.program != "ray" or raw.script[:1] != ("start",):
        return
    if "block" not in raw.options and role.lines.lines[-1].launch is raw:
        message = "without --block, ray start ends at once, and so does its container"
        yield launched.error(message, "add --block")
    if role.job.framework == "ray" and role.name != "head" and "head" in raw.options:
        message = f"with --head, each replica of {role.name} starts its own cluster"
        hint = f"remove the command: by default, {role.name} connects to the head"
        yield launched.error(message, hint)
    host = raw.options.get("dashboard_host", "127.0.0.1")
    has_submitter = role.name == "head" and "submitter" in role.job.roles
    if has_submitter and host in ("127.0.0.1", "localhost"):
        message = (
            "the dashboard listens only inside the head's pod, so the submitter cannot reach it"
        )
        yield launched.error(message, "add --dashboard-host=0.0.0.0")


@of_launchers
def no_dashes(launched: Launched) -> Iterator[Problem]:
    """Report options of a program that `ray job submit` reads as its own, without `--` before.

    python/ray/dashboard/modules/job/cli.py

    wrong:
        framework: ray
        roles:
          head: {}
          worker: {}
          submitter: {command: [ray, job, submit, python, tune.py, --lr, "1"]}
    right:
        framework: ray
        roles:
          head: {}
          worker: {}
          submitter: {command: [ray, job, submit, --, python, tune.py, --lr, "1"]}
    """
    raw = launched.raw
    if raw.script[:2] != ("job", "submit") or raw.dashed:
        return
    for word in raw.script[2:]:
        if word == "--":
            return
        name = word.lstrip("-").partition("=")[0].replace("-", "_")
        if re.match(r"--?[a-zA-Z]", word) and name not in raw.launcher.known:
            message = f"ray job submit reads {word} as its own option, and has none of that name"
            yield launched.error(message, f"write -- before {raw.script[2]}")
            return


@of_launchers
def no_wait(launched: Launched) -> Iterator[Problem]:
    """Warn of a submitter that does not wait for the end of training, which decides the job.

    wrong:
        framework: ray
        roles:
          head: {}
          worker: {}
          submitter: {command: [ray, job, submit, --no-wait, --, python, tune.py]}
    right:
        framework: ray
        roles:
          head: {}
          worker: {}
          submitter: {command: [ray, job, submit, --, python, tune.py]}
    """
    raw, role = launched.raw, launched.role
    is_submitter = role.job.framework == "ray" and role.name == "submitter"
    if is_submitter and raw.script[:2] == ("job", "submit") and "no_wait" in raw.options:
        message = "with --no-wait, the job succeeds before training ends"
        yield launched.warning(message, "remove --no-wait")


@of_roles
def no_submission(role: JobRole) -> Iterator[Problem]:
    """Warn of a submitter that submits nothing, so that training runs outside of the cluster.

    RAY_ADDRESS is the address of the job API. ray.init() cannot connect to it, but to `ray://`:
    https://github.com/ray-project/ray/issues/35010

    wrong:
        framework: ray
        roles:
          head: {}
          worker: {}
          submitter: {command: [python, tune.py]}
    right:
        framework: ray
        roles:
          head: {}
          worker: {}
          submitter: {command: [python, tune.py, "ray://example-head-0.example:10001"]}
    """
    if role.job.framework != "ray" or role.name != "submitter":
        return
    words, launches = role.lines.words, role.lines.launches
    texts = " ".join((*words, *map(str, role.spec.env.values()))).lower()
    trains = launches or any(map(is_python, words[:1]))
    if not trains or re.search("submi(t|ssion)|ray://", texts):
        return
    runs_ray = launches and launches[0].program == "ray"
    training = "python, train.py" if runs_ray else ", ".join(words)
    message = "the submitter does not submit a job to the cluster"
    hint = f"write command: [ray, job, submit, --, {training}]"
    yield warning(("roles", "submitter", "command"), message, hint, "launch")


@of_launchers
def script_on_submitter(launched: Launched) -> Iterator[Problem]:
    """Warn of a program that `ray job submit` names on a volume of the submitter only.

    The head runs it: https://docs.ray.io/en/latest/cluster/running-applications/job-submission/

    wrong:
        framework: ray
        roles:
          head: {}
          worker: {}
          submitter:
            command: [ray, job, submit, --, python, /code/tune.py]
            volumes: {code: {mountPath: /code, pvc: code}}
    right:
        framework: ray
        roles:
          head: {volumes: {code: {mountPath: /code, pvc: code}}}
          worker: {}
          submitter:
            command: [ray, job, submit, --, python, /code/tune.py]
            volumes: {code: {mountPath: /code, pvc: code}}
    right:
        framework: ray
        roles:
          head: {}
          worker: {}
          submitter:
            command: [ray, job, submit, --working-dir, /code, --, python, tune.py]
            volumes: {code: {mountPath: /code, pvc: code}}
    """
    raw, roles = launched.raw, launched.job.roles
    if raw.script[:2] != ("job", "submit") or "head" not in roles:
        return
    for word in raw.script[2:]:
        own, there = (
            any(is_below(word, path) for path in spec.mount_paths)
            for spec in (launched.spec, roles["head"])
        )
        if own and not there and re.fullmatch(r"/.*\.(py|sh)", word):
            message = f"the head runs {word}, but only {launched.role.name} mounts its volume"
            hint = "mount it in the head too, or pass its folder with --working-dir"
            yield launched.warning(message, hint)


@of_all_roles
def different_ray(roles: Sequence[JobRole]) -> Iterator[Problem]:
    """Warn of workers with another version of Ray or Python than the head, which rejects them.

    python/ray/_private/utils.py, check_version_info. The images are those of
    https://hub.docker.com/r/rayproject/ray, or copies of them.

    wrong:
        framework: ray
        roles:
          head: {image: "rayproject/ray:2.49.0"}
          worker: {image: "rayproject/ray:2.9.3-gpu"}
          submitter: {command: [ray, job, submit, --, python, tune.py]}
    wrong:
        framework: ray
        roles:
          head: {image: "rayproject/ray:2.49.0-py310"}
          worker: {image: "rayproject/ray-ml:2.49.0-py311-gpu"}
          submitter: {command: [ray, job, submit, --, python, tune.py]}
    right:
        framework: ray
        roles:
          head: {image: "rayproject/ray:2.49.0-py310"}
          worker: {image: "mirror.example/rayproject/ray-ml:2.49.0-py310-gpu"}
          submitter: {command: [ray, job, submit, --, python, tune.py]}
    """
    images = {role.name: str(role.spec.patched("image", role.spec.image)) for role in roles}
    head = re.fullmatch(IMAGE, images.get("head", ""))
    for role in roles if head else ():
        image = images[role.name]
        found = re.fullmatch(IMAGE, image) if role.name != "submitter" else None
        pythons = {*re.findall(r"-py\d+", f"{image} {images['head']}")}
        if found and head and (found[1] != head[1] or len(pythons) > 1):
            message = (
                f"{image} has another version of Ray or Python than the head's image, so"
                f" {role.name} cannot join the cluster"
            )
            hint = f"write images of one version, such as {images['head']}"
            yield role.warning(("image",), message, hint)
