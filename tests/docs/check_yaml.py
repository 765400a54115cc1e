#!/usr/bin/env python3
"""Checks the YAML files that the guide shows: each can be read, has what its reader asks for, and the shell commands in
it can be parsed. Needs Debian's python3-yaml."""

import argparse
import pathlib
import subprocess
import sys

from page import blocks_of

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not installed (./setup.sh test installs it)")
    sys.exit(77)


def shell_fault(script):
    """Returns bash's error message for the script, "" if it can be parsed."""
    return subprocess.run(["bash", "-n"], input=script, text=True, stderr=subprocess.PIPE, check=False).stderr


def github(document):
    for job in document["jobs"].values():
        assert job["runs-on"] and job["steps"], "a job has a machine and steps"
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step), f"a step uses or runs: {step}"
            yield step.get("run", "")


def gitlab(document):
    for job in document.values():
        assert job["image"] and job["script"], "a job has an image and a script"
        yield "\n".join(job["script"])


def compose(document):
    for service in document["services"].values():
        assert service["image"]
        yield service["command"]


def kubernetes(document):
    assert document["apiVersion"] and document["metadata"]["name"] and document["kind"]
    spec = document["spec"]
    if document["kind"] == "Job":
        assert spec["template"]["spec"]["restartPolicy"] == "Never"
        spec = spec["template"]["spec"]
    if document["kind"] in ("Job", "Pod"):
        for container in spec["containers"]:
            assert container["name"] and container["image"]
            assert all(isinstance(word, str) for word in container.get("command", []))
    yield ""


KINDS = {".github/workflows/rdma.yml": github, ".gitlab-ci.yml": gitlab, "compose.yaml": compose}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("guide", type=pathlib.Path, help="folder of the pages")
    checked = 0
    for page in sorted(parser.parse_args().guide.glob("*.md")):
        for block in blocks_of(page.read_text(encoding="utf-8")):
            if not (block.file or "").endswith((".yml", ".yaml")):
                continue
            for document in yaml.safe_load_all(block.text()):
                for script in KINDS.get(block.file, kubernetes)(document):
                    fault = shell_fault(script)
                    assert not fault, f"{page.name}: {block.file}: {fault}"
            print(f"{page.name}: {block.file}: good")
            checked += 1
    assert checked, "the guide shows no YAML"


if __name__ == "__main__":
    main()
