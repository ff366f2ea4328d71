"""Makes of what the chart renders what `podman kube play` of podman 4.3 takes: one Pod for each replica of each workload.

What podman understands of a pod stays as it was rendered. What it does not understand, or understands otherwise, stands in the
tables below with what becomes of it; a field that stands in none is refused.
"""
import os
import re
import shutil
import subprocess

# Documents that are no pods.
NO_PODS = {
    "Service": "podman has none: its name stands in every pod's hostAliases, with the addresses of its pods",
    "NetworkPolicy": "podman keeps none",
    "PodDisruptionBudget": "podman evicts nothing",
    "PodMonitor": "nothing scrapes: metrics are asked for from here",
    "ServiceMonitor": "nothing scrapes: metrics are asked for from here",
}
# Kinds whose template is taken.
WORKLOADS = {
    "Deployment": "a Pod for each replica",
    "StatefulSet": "a Pod for each replica, with a claim of its own",
    "Job": "a Pod that runs once",
}
SPEC = {
    "containers": None, "initContainers": None, "securityContext": None, "restartPolicy": None,
    "volumes": "each is a hostPath, made here as a kubelet makes it: group, modes, links, a bound where it is in memory; podman would "
               "mount the files of a Secret in base64, and give one emptyDir to all pods that name theirs alike",
    "automountServiceAccountToken": "left out: podman has no service accounts",
    "enableServiceLinks": "left out: podman makes no variables of services",
    "terminationGracePeriodSeconds": "left out: podman is told when it stops the pod",
    "topologySpreadConstraints": "left out: there is one host",
}
SECURITY = {
    "runAsUser": None, "runAsGroup": None,
    "runAsNonRoot": "left out: seen at the processes",
    "fsGroup": "done here, as a kubelet does", "fsGroupChangePolicy": "done here, as a kubelet does",
    "seccompProfile": "an annotation: podman reads no other place",
}
CONTAINER = {
    "name": None, "image": None, "imagePullPolicy": None, "command": None, "env": None, "envFrom": None, "resources": None,
    "securityContext": None, "volumeMounts": None,
    "ports": "left out: podman would publish them at the host, one pod each",
    "readinessProbe": "left out: asked from here, as a kubelet does",
    "livenessProbe": "left out: asked from here; podman would start curl in the container, which has none",
}
CONTAINER_SECURITY = {"allowPrivilegeEscalation": None, "readOnlyRootFilesystem": None, "capabilities": None}
VOLUMES = dict.fromkeys(["secret", "projected", "emptyDir", "persistentVolumeClaim"])


def known(item, table, where, done):
    """Notes what becomes of each field, and refuses those of which nobody said it."""
    for field in item:
        if field not in table:
            raise SystemExit(f"pods.py: nobody has looked at what podman makes of {where}.{field}")
        if table[field]:
            done[f"{where}.{field}"] = table[field]
    return {field: item[field] for field in item if table[field] is None}


class Pod:
    """A replica of a workload as it was rendered, with an address."""

    def __init__(self, workload, number, address):
        self.workload, self.address = workload, address
        self.template = workload["spec"]["template"]
        self.spec, self.labels = self.template["spec"], self.template["metadata"]["labels"]
        self.name = f"{workload['metadata']['name']}-{number}"
        self.component = self.labels["app.kubernetes.io/component"]

    def containers(self):
        """Each with the name that podman gives it."""
        return [(f"{self.name}-{container['name']}", container) for container in self.spec["containers"]]

    def played(self, files, aliases, place, done):
        """The Pod for podman. `files` has the files of each Secret by name, `aliases` the addresses of each host name, and
        volumes are made in `place`."""
        spec = known(self.spec, SPEC, "spec", done)
        claims = [claim["metadata"]["name"] for claim in self.workload["spec"].get("volumeClaimTemplates", [])]
        volumes = [*self.spec.get("volumes", []), *({"name": name, "persistentVolumeClaim": {}} for name in claims)]
        spec["volumes"] = [self.volume(volume, files, place, done) for volume in volumes]
        if "restartPolicy" not in spec:
            spec["restartPolicy"] = "OnFailure"
            done["spec.restartPolicy"] = "OnFailure and not Always, with which podman starts init containers again that have ended"
        spec["securityContext"] = known(self.spec["securityContext"], SECURITY, "spec.securityContext", done)
        for kind in ("initContainers", "containers"):
            if kind in spec:
                spec[kind] = [known(container, CONTAINER, "container", done) for container in spec[kind]]
            for container in spec.get(kind, []):
                known(container["securityContext"], CONTAINER_SECURITY, "container.securityContext", done)
                container["env"] = [self.variable(variable, done) for variable in container.get("env", [])]
        spec["hostAliases"] = [{"ip": address, "hostnames": [name]} for name, addresses in aliases.items() for address in addresses]
        metadata = {"name": self.name, "labels": self.labels, "annotations": self.seccomp()}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def variable(self, variable, done):
        """podman takes `$(NAME)` for text."""
        value = variable.get("value", "")
        written = value.replace("$(MFAAS_NODE_NAME)", self.name)
        if "$(" in written:
            raise SystemExit(f"pods.py: nobody says what stands for the variable in {value}")
        if written == value:
            return variable
        done["container.env.value"] = "$(MFAAS_NODE_NAME) is replaced: podman takes it for text"
        return {**variable, "value": written}

    def seccomp(self):
        """podman joins its root with the first part of a path alone: what is asked for is the name of the file."""
        profile = self.spec["securityContext"]["seccompProfile"]
        value = {"RuntimeDefault": lambda: "runtime/default",
                 "Localhost": lambda: "localhost/" + profile["localhostProfile"].rsplit("/", 1)[-1]}[profile["type"]]()
        return {"seccomp.security.alpha.kubernetes.io/pod": value}

    def volume(self, volume, files, place, done):
        """A volume as a kubelet makes it. A claim is there already when the pod comes back."""
        (kind,) = volume.keys() - {"name"}
        known({kind: None}, VOLUMES, "volume", done)
        source, security = volume[kind], self.spec["securityContext"]
        path = place / ("claims" if kind == "persistentVolumeClaim" else "volumes") / self.name / volume["name"]
        path.mkdir(parents=True, exist_ok=kind == "persistentVolumeClaim")
        if source.get("medium") == "Memory":
            size = size_bytes(source["sizeLimit"])
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], check=True)
        if kind == "emptyDir":
            path.chmod(0o777)
        if kind in ("secret", "projected"):
            secrets = [source["secretName"]] if kind == "secret" else [part["secret"]["name"] for part in source["sources"]]
            write_files(path, {name: content for secret in secrets for name, content in files[secret].items()},
                        source.get("defaultMode", 0o644))
        give_to_group(path, security["fsGroup"], security.get("fsGroupChangePolicy", "Always"))
        return {"name": volume["name"], "hostPath": {"path": str(path), "type": "Directory"}}


def write_files(path, files, mode):
    """Links to files below a link, which is how a kubelet changes all of them at once."""
    (path / "..now").mkdir()
    (path / "..data").symlink_to("..now")
    for name, content in files.items():
        (path / "..now" / name).write_bytes(content)
        (path / "..now" / name).chmod(mode)
        (path / name).symlink_to(f"..data/{name}")


def give_to_group(volume, group, policy):
    """What a kubelet does with fsGroup each time that it mounts a volume, or only where the top of it is not that group's."""
    top = volume.stat()
    if policy == "OnRootMismatch" and top.st_gid == group and top.st_mode & 0o2770 == 0o2770:
        return
    for path in [volume, *volume.rglob("*")]:
        os.chown(path, -1, group, follow_symlinks=False)
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o7777 | (0o2770 if path.is_dir() else 0o660))


def remove_volumes(place, pod):
    """All but its claims."""
    for path in (place / "volumes" / pod.name).glob("*"):
        if path.is_mount():
            subprocess.run(["umount", path], check=True)
        shutil.rmtree(path)


def port_number(container, name):
    for port in container.get("ports", []):
        if port["name"] == name:
            return port["containerPort"]
    raise SystemExit(f"pods.py: {container['name']} has no port {name}")


def size_bytes(quantity):
    number, unit = re.fullmatch(r"(\d+)([MG]i)", quantity).groups()
    return int(number) << {"Mi": 20, "Gi": 30}[unit]


def pods(rendered, namespace, network, done):
    """The pods of all workloads, and the addresses of every name that a cluster's DNS would give them."""
    found, names = [], {}
    for item in rendered:
        kind = item["kind"]
        if kind in WORKLOADS:
            done[kind] = WORKLOADS[kind]
            for number in range(item["spec"].get("replicas", 1)):
                found.append(Pod(item, number, f"{network}.{10 + len(found)}"))
        elif kind in NO_PODS:
            done[kind] = NO_PODS[kind]
        else:
            raise SystemExit(f"pods.py: nobody has looked at what podman makes of {kind}")
    for item in rendered:
        if item["kind"] == "Service":
            name, selector = item["metadata"]["name"], item["spec"]["selector"].items()
            selected = [pod for pod in found if selector <= pod.labels.items()]
            for ending in ("", f".{namespace}", f".{namespace}.svc"):
                names[name + ending] = [pod.address for pod in selected]
            if item["spec"].get("clusterIP") == "None":
                members = [pod for pod in selected if pod.workload["spec"].get("serviceName") == name]
                names.update({f"{pod.name}.{name}.{namespace}.svc": [pod.address] for pod in members})
    return found, names
