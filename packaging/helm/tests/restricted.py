"""Refuses rendered pods that Pod Security "restricted" would refuse, or that have no bound of memory or a writable root.

    helm template … | python3 restricted.py
"""
import sys

import yaml

VOLUMES = {"configMap", "downwardAPI", "emptyDir", "persistentVolumeClaim", "projected", "secret"}


def faults(pod):
    spec = pod["spec"]
    security = spec.get("securityContext", {})
    if security.get("runAsNonRoot") is not True or security.get("runAsUser", 0) == 0:
        yield "runs as root"
    if security.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
        yield "has no seccomp profile"
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(key):
            yield f"has {key}"
    for volume in spec.get("volumes", []):
        if not VOLUMES & volume.keys():
            yield f"mounts {volume}"
    for container in spec["containers"] + spec.get("initContainers", []):
        own = container.get("securityContext", {})
        name = container["name"]
        if own.get("allowPrivilegeEscalation") is not False:
            yield f"{name} may gain rights"
        if own.get("capabilities") != {"drop": ["ALL"]}:
            yield f"{name} has capabilities"
        if own.get("readOnlyRootFilesystem") is not True:
            yield f"{name} may write its root"
        if own.get("privileged") or any("hostPort" in port for port in container.get("ports", [])):
            yield f"{name} has what is the host's"
        if "memory" not in container.get("resources", {}).get("limits", {}):
            yield f"{name} has no bound of memory"


def main():
    pods = 0
    wrong = []
    for document in yaml.safe_load_all(sys.stdin):
        template = (document or {}).get("spec", {}).get("template")
        if isinstance(template, dict) and "containers" in template.get("spec", {}):
            pods += 1
            name = f"{document['kind']} {document['metadata']['name']}"
            wrong += [f"{name} {fault}" for fault in faults(template)]
    if pods < 5:
        wrong.append(f"only {pods} pods were rendered")
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{pods} pods are as Pod Security \"restricted\" wants them")


main()
