#!/usr/bin/env python3
"""Asks a real kube-apiserver whether it takes what the chart renders, in a namespace that enforces Pod Security "restricted".

    apiserver.py BIN CRD… -- RENDERED…

BIN holds kube-apiserver and etcd. Both run on the loopback, for this run alone. Everything is created as a dry run on the side
of the server, with unknown fields refused, and so is a pod of each template: the admission of pods does not look at templates.
"""
import contextlib
import json
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import yaml

NAMESPACE = "mfaas"
TOKEN = "for-this-run-alone"
START_MAX = 120
WORKLOADS = {"Deployment", "StatefulSet", "Job", "DaemonSet"}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class ApiServer:
    def __init__(self, binaries, home):
        self.home, self.processes, self.resources = home, [], {}
        etcd, peer, self.port = free_port(), free_port(), free_port()
        certificate, key = home / "tls.pem", home / "tls.key"
        openssl = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
        subprocess.run([*openssl, "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", certificate],
                       check=True, capture_output=True)
        (home / "tokens").write_text(f'{TOKEN},test,test,"system:masters"\n')
        self.start(binaries / "etcd", "--data-dir", home / "etcd", "--listen-client-urls", f"http://127.0.0.1:{etcd}",
                   "--advertise-client-urls", f"http://127.0.0.1:{etcd}", "--listen-peer-urls", f"http://127.0.0.1:{peer}",
                   "--unsafe-no-fsync")
        self.start(binaries / "kube-apiserver", "--etcd-servers", f"http://127.0.0.1:{etcd}", "--bind-address", "127.0.0.1",
                   "--advertise-address", "127.0.0.1", "--secure-port", self.port, "--tls-cert-file", certificate,
                   "--tls-private-key-file", key, "--service-account-key-file", key, "--service-account-signing-key-file", key,
                   "--service-account-issuer", "https://localhost", "--service-cluster-ip-range", "10.0.0.0/24",
                   "--token-auth-file", home / "tokens", "--authorization-mode", "RBAC", "--cert-dir", home / "certificates")
        self.tls = ssl.create_default_context(cafile=certificate)

    def start(self, program, *arguments):
        log = open(self.home / f"{program.name}.log", "wb")
        command = [program, *map(str, arguments)]
        self.processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home))

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def ask(self, method, path, body=None):
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", method=method)
        request.add_header("Authorization", f"Bearer {TOKEN}")
        request.add_header("Content-Type", "application/json")
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, data, timeout=30, context=self.tls) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read()

    def wait_until(self, what, holds):
        end = time.monotonic() + START_MAX
        while time.monotonic() < end:
            for process in self.processes:
                if process.poll() is not None:
                    log = self.home / f"{pathlib.Path(process.args[0]).name}.log"
                    sys.exit(f"{process.args[0]} has ended: {log.read_text(errors='replace')[-2000:]}")
            with contextlib.suppress(OSError):
                if holds():
                    return
            time.sleep(0.2)
        sys.exit(f"apiserver.py: {what}: not within {START_MAX} s")

    def collection(self, kind, version):
        """Where objects of that kind are created."""
        base = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        if base not in self.resources:
            status, answer = self.ask("GET", base)
            self.resources[base] = json.loads(answer)["resources"] if status == 200 else []
        for resource in self.resources[base]:
            if resource["kind"] == kind and "/" not in resource["name"]:
                return f"{base}/namespaces/{NAMESPACE}/{resource['name']}" if resource["namespaced"] else f"{base}/{resource['name']}"
        return None

    def create(self, item, dry=True):
        """Whether the server takes it, and what it says if not."""
        where = self.collection(item["kind"], item["apiVersion"])
        if where is None:
            return f"the server knows no {item['apiVersion']} {item['kind']}"
        options = "?fieldValidation=Strict" + ("&dryRun=All" if dry else "")
        status, answer = self.ask("POST", where + options, item)
        return None if status in (200, 201) else f"{status}: {json.loads(answer).get('message', answer)}"


def pod_of(workload):
    template = workload["spec"]["template"]
    metadata = {"name": workload["metadata"]["name"], "labels": template["metadata"].get("labels", {})}
    spec = dict(template["spec"])
    claims = [claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])]
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    spec["volumes"] = spec.get("volumes", []) + volumes
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def documents(path):
    return [item for item in yaml.safe_load_all(pathlib.Path(path).read_text()) if item]


def check(server, rendered):
    # The controller makes it in every namespace, and there is none here.
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    server.create(account, dry=False)
    refused, counted, pods = [], 0, 0
    for path in rendered:
        items = documents(path)
        for item in items:
            if item["kind"] == "ServiceAccount":
                # Pods are admitted with one that is there. The same one may be rendered twice.
                server.create(item, dry=False)
        for item in items:
            trials = [(item["kind"], item)] if item["kind"] != "ServiceAccount" else []
            if item["kind"] in WORKLOADS:
                trials.append(("Pod of the " + item["kind"], pod_of(item)))
                pods += 1
            for what, trial in trials:
                counted += 1
                said = server.create(trial)
                if said:
                    refused.append(f"{path}: {what} {item['metadata']['name']}: {said}")
    if refused:
        sys.exit("\n".join(refused))
    return counted, pods


def check_that_it_can_refuse(server, rendered):
    """What the test would not notice is no proof."""
    workload = next(item for item in documents(rendered) if item["kind"] == "Deployment")
    pod = pod_of(workload)
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    said = server.create(pod) or ""
    if 'violates PodSecurity "restricted' not in said:
        sys.exit(f"a pod that may gain rights is not refused by Pod Security: {said or 'it is taken'}")
    workload["spec"]["replica"] = 1
    said = server.create(workload) or ""
    if 'unknown field "spec.replica"' not in said:
        sys.exit(f"an unknown field is not refused: {said or 'it is taken'}")


def main():
    arguments = sys.argv[1:]
    split = arguments.index("--")
    binaries, definitions, rendered = pathlib.Path(arguments[0]), arguments[1:split], arguments[split + 1:]
    home = pathlib.Path(tempfile.mkdtemp(prefix="mfaas-apiserver-"))
    server = ApiServer(binaries.resolve(), home)
    try:
        server.wait_until("the server is ready", lambda: server.ask("GET", "/readyz")[0] == 200)
        enforced = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest"}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": enforced}}
        said = server.create(namespace, dry=False)
        if said:
            sys.exit(f"the namespace: {said}")
        for path in definitions:
            for definition in documents(path):
                said = server.create(definition, dry=False)
                if said:
                    sys.exit(f"{path}: {said}")
                spec = definition["spec"]
                base, kind = f"{spec['group']}/{spec['versions'][0]['name']}", spec["names"]["kind"]

                def is_served():
                    server.resources.clear()
                    return server.collection(kind, base) is not None
                server.wait_until(f"{kind} is served", is_served)
        counted, pods = check(server, rendered)
        check_that_it_can_refuse(server, rendered[0])
        print(f"kube-apiserver takes {counted} objects, {pods} of them pods under Pod Security restricted, "
              "and refuses one that may gain rights and an unknown field")
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


main()
