#!/usr/bin/env python3
"""Lets podman run the pods that the chart renders, as a site that deploys a function and serves it.

    podman.py PROGRAMS CACHES RENDERED PLACE

PROGRAMS holds mfaas, mfaas-server and mfaas-signer, with which this machine does what an operator does by hand; CACHES is where
the builder's image has its dependency cache from; RENDERED is what the chart makes of the values of scripts/test-packaging; PLACE
is a directory for podman. Everything runs in namespaces (network, mounts, processes) with a storage and a /run that no other
podman has: when this program ends, however it does, nothing runs any more.

Database and store have the names `database`, over TLS with an authority of its own, and `store`. Each step has to do what it
does on a cluster, and each container to be what was rendered. What podman does not take as it was rendered is printed, with what
became of it.

Exit code 0: all of it is so; 1: something is not, with what the containers said last; 3: this machine permits no namespaces.
"""
import base64
import contextlib
import json
import os
import pathlib
import shlex
import socket
import subprocess
import sys
import time
import urllib.request

import yaml

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))

import engines
import pods

NAMESPACE = "mfaas"
NETWORK = "10.78.0"
# The address of this machine in the pods' network.
HOST = f"{NETWORK}.1"
PROFILES = ROOT / "packaging/images"
# The components that have a role in the database, in the order in which they start: the first server marks the store.
COMPONENTS = ("server", "signer", "builder", "acquirer")
STARTED = time.monotonic()
READY_MAX_S = 120
RUN_MAX_S = 120
BUILD_MAX_S = 240
GRACE_S = 30
NAMESPACES = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
              # Takes up the ends of what nobody waits for.
              "catatonit", "--"]
# The limits are what a rendered pod cannot say, and what machines that allow less than podman wants refuse.
CONTAINERS_CONF = """[containers]
base_hosts_file = "none"
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
[network]
network_config_dir = "{place}/networks"
"""
# Images are read from the machine's storage, and nothing is written there.
STORAGE_CONF = """[storage]
driver = "{driver}"
graphroot = "{place}/storage"
runroot = "/run/containers/storage"
[storage.options]
additionalimagestores = ["{images}"]
"""


def fail(text):
    sys.exit(f"podman.py: {text}")


def say(text):
    print(f"[{time.monotonic() - STARTED:6.1f}] {text}", flush=True)


def run(*command, **more):
    command = [str(part) for part in command]
    ended = subprocess.run(command, text=True, capture_output=True, **more)
    if ended.returncode != 0:
        fail(f"{shlex.join(command)[:200]}: exit code {ended.returncode}: {(ended.stdout + ended.stderr)[-2000:]}")
    return ended.stdout


def until(what, holds, seconds):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            fail(f"{what}: not within {seconds} s")
        time.sleep(0.3)


def connects(host, port):
    with contextlib.suppress(OSError):
        socket.create_connection((host, port), 1).close()
        return True
    return False


def get(url, seconds, data=None, token=""):
    """The answer, if it is one that a kubelet takes for success."""
    request = urllib.request.Request(url, data, {"Authorization": f"Bearer {token}"} if token else {})
    with contextlib.suppress(OSError):
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            return answer.read().decode(errors="replace")
    return None


class Engines:
    """Database and store, in /run, which is this run's own."""

    def __init__(self):
        self.processes = {}
        self.authority, self.data = pathlib.Path("/run/database-authority"), pathlib.Path("/run/pg")
        self.data.mkdir()
        engines.make_authority(self.authority)
        engines.certify(self.authority, "database", self.data)
        run("chown", "-R", "postgres", self.data)
        run(*engines.postgres("initdb", "-D", self.data / "data", "-U", "postgres", "-A", "trust"), cwd=self.data)
        access = ["local all postgres trust", f"hostssl all all {NETWORK}.0/24 scram-sha-256", ""]
        (self.data / "data/pg_hba.conf").write_text("\n".join(access))
        self.start("postgres", engines.postgres_server(self.data), cwd=self.data)
        ask = ["psql", "-h", self.data, "-U", "postgres", "-qAtc"]
        self.until("postgres", lambda: subprocess.run([*ask, "SELECT 1"], capture_output=True).returncode == 0)
        # An owner with no further rights, as docs/fleet.md makes it.
        run(*ask, "CREATE ROLE mfaas_owner LOGIN CREATEROLE PASSWORD 'owner'")
        run(*ask, "CREATE DATABASE mfaas OWNER mfaas_owner")
        objects, metadata = pathlib.Path("/run/objects"), pathlib.Path("/run/metadata")
        (objects / "mfaas").mkdir(parents=True)
        metadata.mkdir()
        keys = {"ROOT_ACCESS_KEY": "test-id", "ROOT_SECRET_KEY": "test-key"}
        self.start("s3", engines.s3_server(objects, metadata), env={**os.environ, **keys})
        self.until("s3", lambda: connects("127.0.0.1", 9000))

    def start(self, name, command, **more):
        log = open(f"/run/{name}.log", "wb")
        self.processes[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **more)

    def until(self, name, holds):
        def held():
            if self.processes[name].poll() is not None:
                fail(f"{name} has ended: {pathlib.Path(f'/run/{name}.log').read_text(errors='replace')[-2000:]}")
            return holds()
        until(name, held, READY_MAX_S)


class Site:
    """What was rendered, with podman in the place of kubelets."""

    def __init__(self, rendered, place):
        self.place = place
        # What became of each field that podman does not take.
        self.changed = {}
        self.pods, names = pods.pods(rendered, NAMESPACE, NETWORK, self.changed)
        # Files of each Secret, and names as the DNS of a cluster has them.
        self.secrets, self.names = {}, {"database": [HOST], "store": [HOST], **names}
        self.running = []
        hosts = [f"{address} {name}" for name, addresses in self.names.items() for address in addresses]
        pathlib.Path("/run/hosts").write_text("\n".join(["127.0.0.1 localhost", *hosts, ""]))
        run("mount", "--bind", "/run/hosts", "/etc/hosts")
        self.configure()
        run("podman", "network", "create", "--subnet", f"{NETWORK}.0/24", "pods")
        self.engines = Engines()

    def configure(self):
        images, driver = run("podman", "info", "--format", "{{.Store.GraphRoot}} {{.Store.GraphDriverName}}").split()
        for variable, text in (("CONTAINERS_CONF", CONTAINERS_CONF), ("CONTAINERS_STORAGE_CONF", STORAGE_CONF)):
            file = self.place / variable.lower()
            file.write_text(text.format(place=self.place, images=images, driver=driver))
            os.environ[variable] = str(file)
        (self.place / "networks").mkdir()

    def secret_of_variables(self, name, values):
        """podman reads those from a JSON object of its own."""
        data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
        run("podman", "secret", "create", name, "-", input=json.dumps(data))

    def secret_of_files(self, name, *files):
        self.secrets[name] = {file.name: file.read_bytes() for file in files}

    def of(self, *components):
        return [pod for pod in self.pods if pod.component in components]

    def play(self, pod):
        file = self.place / f"{pod.name}.json"
        file.write_text(json.dumps(pod.played(self.secrets, self.names, self.place, self.changed), indent=1))
        command = ["podman", "kube", "play", "--network", "pods", "--ip", pod.address, "--seccomp-profile-root", PROFILES, file]
        played = subprocess.run(command, text=True, capture_output=True)
        # Of a pod that is not played as a whole, some is there.
        self.running.append(pod)
        if played.returncode != 0:
            fail(f"podman does not play {pod.name}: {played.stderr[-2000:]}")

    def inspect(self, name):
        (found,) = json.loads(run("podman", "container", "inspect", name))
        return found

    def run_once(self, pod):
        self.play(pod)
        ((name, _),) = pod.containers()
        until(f"the end of {name}", lambda: self.inspect(name)["State"]["Status"] == "exited", RUN_MAX_S)
        code = self.inspect(name)["State"]["ExitCode"]
        if code != 0:
            fail(f"{name} ended with {code}")
        self.remove(pod)
        say(f"{pod.name}: ended with 0")

    def run_ready(self, *wanted):
        for pod in wanted:
            self.play(pod)
        for pod in wanted:
            for name, container in pod.containers():
                until(f"{name} is ready", lambda: self.answers(pod, name, container, "readinessProbe"), READY_MAX_S)
            say(f"{pod.name}: ready")

    def answers(self, pod, name, container, kind):
        """Asks a probe, as a kubelet does."""
        probe = container[kind]
        if "exec" in probe:
            asked = subprocess.run(["podman", "exec", name, *probe["exec"]["command"]], capture_output=True)
            return asked.returncode == 0
        port = pods.port_number(container, probe["httpGet"]["port"])
        return get(f"http://{pod.address}:{port}{probe['httpGet']['path']}", probe.get("timeoutSeconds", 1)) is not None

    def stop(self, pod):
        """Every program ends by itself within the time that a cluster gives it."""
        for name, _ in pod.containers():
            run("podman", "stop", "--time", pod.spec.get("terminationGracePeriodSeconds", GRACE_S), name)
            code = self.inspect(name)["State"]["ExitCode"]
            if code != 0:
                fail(f"{name} ended with {code} when it was stopped")
        self.remove(pod)

    def remove(self, pod):
        identity = run("podman", "pod", "inspect", "--format", "{{.ID}}", pod.name).strip()
        run("podman", "pod", "rm", "--force", "--time", "0", pod.name)
        # podman 4.3 leaves those of hierarchies in which it sets nothing.
        for group in pathlib.Path("/sys/fs/cgroup").glob(f"*/libpod_parent/{identity}"):
            for path in sorted([group, *group.glob("*/")], reverse=True):
                path.rmdir()
        pods.remove_volumes(self.place, pod)
        self.running.remove(pod)

    def check_containers(self):
        containers = [(pod, name, container) for pod in self.running for name, container in pod.containers()]
        problems = [f"{name}: {problem}" for pod, name, container in containers for problem in self.problems(pod, name, container)]
        if problems:
            fail("\n".join(problems))
        say(f"{len(containers)} containers are as rendered: probes, memory, user, group, no capability, no new rights, seccomp, "
            "read-only root, mounts; none was started again")

    def problems(self, pod, name, container):
        found = self.inspect(name)
        if found["RestartCount"]:
            yield f"started again {found['RestartCount']} times"
        for kind in ("readinessProbe", "livenessProbe"):
            if kind in container and not self.answers(pod, name, container, kind):
                yield f"its {kind} fails"
        limit = pods.size_bytes(container["resources"]["limits"]["memory"])
        if found["HostConfig"]["Memory"] != limit:
            yield f"its memory is bounded by {found['HostConfig']['Memory']} and not by {limit}"
        process = pathlib.Path("/proc", str(found["State"]["Pid"]))
        status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)
        security = pod.spec["securityContext"]
        wanted = {"Uid": "\t".join([str(security["runAsUser"])] * 4), "Gid": "\t".join([str(security["runAsGroup"])] * 4),
                  "NoNewPrivs": "1", "Seccomp": "2", **dict.fromkeys(["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"], "0" * 16)}
        yield from (f"{key} is {status[key]} and not {value}" for key, value in wanted.items() if status[key] != value)
        mounts = [line.split() for line in (process / "mountinfo").read_text().splitlines()]
        options = {fields[4]: fields[5].split(",") for fields in mounts}
        read_only = {"/": True, **{mount["mountPath"]: mount.get("readOnly", False) for mount in container["volumeMounts"]}}
        for path, is_wanted in read_only.items():
            if path not in options:
                yield f"nothing is mounted at {path}"
            elif ("ro" in options[path]) != is_wanted:
                yield f"{path} is mounted {options[path][0]}"

    def print_logs(self):
        """What containers said last, for whoever reads why this failed."""
        names = subprocess.run(["podman", "ps", "--all", "--format", "{{.Names}}"], text=True, capture_output=True).stdout.split()
        for name in names:
            said = subprocess.run(["podman", "logs", "--tail", "12", name], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if said.stdout:
                print(f"-- {name}:\n{said.stdout}", file=sys.stderr)


class Operator:
    """What packaging/README.md leaves to a person, with the programs of this machine."""

    def __init__(self, programs, caches, site):
        self.programs, self.caches, self.site = programs, caches, site
        self.authority = site.engines.authority / "ca.pem"
        (self.service,) = (name for name in site.names if name.endswith("-server"))
        self.root, self.keys, self.issuer, self.tls = (pathlib.Path("/run", name) for name in ("root", "keys", "issuer", "tls"))
        self.environment = {**os.environ, "HOME": "/run", "MFAAS_SERVER": f"https://{self.service}:7700"}

    def url(self, role, authority="/database/ca.pem"):
        return f"postgres://mfaas_{role}:{role}@database/mfaas?sslrootcert={authority}"

    def run(self, program, *arguments, role=None):
        more = {"MFAAS_DATABASE_URL": self.url(role, self.authority)} if role else {}
        return run(self.programs / program, *arguments, env={**self.environment, **more})

    def make_secrets(self):
        site = self.site
        site.secret_of_files("mfaas-database-ca", self.authority)
        for role in ("owner", *COMPONENTS):
            site.secret_of_variables(f"mfaas-database-{role}", {"url": self.url(role)})
        site.secret_of_variables("mfaas-blobs", {
            "AWS_ENDPOINT": "http://store:9000", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test-id", "AWS_SECRET_ACCESS_KEY": "test-key"})
        self.run("mfaas-signer", "init", "--root-dir", self.root, "--keys-dir", self.keys)
        self.run("mfaas-signer", "init-authority", "--ca-dir", self.issuer)
        self.run("mfaas-signer", "certify-server", "--ca-dir", self.issuer, "--tls-dir", self.tls, "--name", self.service)
        site.secret_of_files("mfaas-signer-keys", *self.keys.iterdir())
        site.secret_of_files("mfaas-signer-authority", *self.issuer.iterdir())
        site.secret_of_files("mfaas-server-tls", *self.tls.iterdir())
        site.secret_of_files("mfaas-node-trust", self.tls / "ca.pem", self.root / "root.pub")

    def after_migration(self):
        for role in COMPONENTS:
            run("psql", "-v", "ON_ERROR_STOP=1", "-qc", f"ALTER ROLE mfaas_{role} LOGIN PASSWORD '{role}'",
                f"host=database user=mfaas_owner dbname=mfaas sslmode=verify-full sslrootcert={self.authority}",
                env={**os.environ, "PGPASSWORD": "owner"})
        self.run("mfaas-signer", "publish-keylist", self.root / "keylist.json", role="signer")
        cache = self.caches / json.loads((self.caches / "current.json").read_text())["id"]
        self.run("mfaas-server", "allowlist", "import", cache / "allowlist.json", role="owner")
        token = self.run("mfaas-server", "token", "create", "--tenant", "default", "--role", "admin", "--name", "first",
                         "--person", "operator", role="owner").splitlines()[-1]
        self.environment.update(MFAAS_TOKEN=token, MFAAS_CA_FILE=str(self.tls / "ca.pem"))

    def let_nodes_in(self, number):
        file = pathlib.Path("/run/token")
        file.write_text(self.run("mfaas", "node", "join-token", "--uses", number, "--hours", "1").splitlines()[-1] + "\n")
        self.site.secret_of_files("mfaas-node-join", file)


def check_calls(operator, what):
    """hello answers where the server says that callers come in, and at each node, by the name that it advertises."""
    said = [operator.run("mfaas", "invoke", "hello", "--data", "Ada")]
    nodes = json.loads(operator.run("mfaas", "node", "list", "--json"))["items"]
    urls = {node["ingress_url"] for node in nodes}
    if len(urls) != len(operator.site.of("node")):
        fail(f"nodes say that callers reach them at {sorted(urls)}")
    token = operator.run("mfaas", "token", "create", "--call", "hello").splitlines()[-1]
    said += [get(f"{url}/f/default/hello", 5, b"Ada", token) for url in urls]
    if set(said) != {"Hello, Ada!\n"} or {node["state"] for node in nodes} != {"ready"}:
        fail(f"hello answers {said}, and nodes are {nodes}")
    say(f"hello answers at {len(urls)} nodes and where callers come in, {what}")


def check_keys(site):
    """Keys on volumes are closed to the group, which a kubelet gives them."""
    keys = list((site.place / "claims").rglob("*.key"))
    opened = [str(key.relative_to(site.place)) for key in keys if key.stat().st_mode & 0o077]
    if opened or len(keys) < len(site.of("node")):
        fail(f"{opened} of {len(keys)} keys on volumes can be read by others than their program")
    say(f"{len(keys)} keys on volumes are closed")


def check_metrics(site):
    for pod in site.running:
        ((_, container),) = pod.containers()
        url = f"http://{pod.address}:{pods.port_number(container, 'metrics')}/metrics"
        if "mfaas_" not in (get(url, 5) or ""):
            fail(f"{pod.name} shows no metrics at {url}")
    say(f"{len(site.running)} pods show metrics")


def drive(site, operator):
    operator.make_secrets()
    for pod in site.of("migration"):
        site.run_once(pod)
    operator.after_migration()
    for component in COMPONENTS:
        site.run_ready(*site.of(component))
    deployed = json.loads(operator.run("mfaas", "deploy", "--json", "--no-serve-wait", "--timeout", BUILD_MAX_S, ROOT / "examples/hello"))
    if deployed["state"] != "admitted" or deployed["stages"][-1]["stage"] != "sign":
        fail(f"hello is {deployed['state']} after {deployed['stages'][-1]}")
    say("hello is admitted and signed")
    nodes = site.of("node")
    operator.let_nodes_in(len(nodes))
    site.run_ready(*nodes)
    check_calls(operator, "which have just joined")
    check_metrics(site)
    site.check_containers()
    # The join token is used up: what it has on its volume is all that a node needs.
    for pod in nodes:
        site.stop(pod)
    site.run_ready(*nodes)
    check_calls(operator, "which came back on their volumes")
    check_keys(site)
    for pod in reversed(list(site.running)):
        site.stop(pod)
    say("every program ended by itself when it was stopped")
    for field, what in sorted(site.changed.items()):
        say(f"not as rendered: {field}: {what}")


def private_mounts():
    run("mount", "--make-rprivate", "/")
    for path, mode in (("/run", "755"), ("/dev/shm", "1777"), ("/var/lib/cni", "755")):
        pathlib.Path(path).mkdir(parents=True, exist_ok=True)
        run("mount", "-t", "tmpfs", "-o", f"mode={mode}", "tmpfs", path)
    run("ip", "link", "set", "lo", "up")


def main():
    arguments = sys.argv[1:]
    if arguments[:1] != ["--inside"]:
        if len(arguments) != 4:
            sys.exit(__doc__)
        if subprocess.run([*NAMESPACES, "true"], capture_output=True).returncode != 0:
            sys.exit(3)
        sys.exit(subprocess.run([*NAMESPACES, sys.executable, __file__, "--inside", *arguments]).returncode)
    programs, caches, rendered, place = (pathlib.Path(argument).resolve() for argument in arguments[1:])
    private_mounts()
    place.mkdir()
    site = Site([item for item in yaml.safe_load_all(rendered.read_text()) if item], place)
    try:
        drive(site, Operator(programs, caches, site))
    except SystemExit:
        site.print_logs()
        raise
    finally:
        for pod in reversed(list(site.running)):
            # What has failed already says why.
            with contextlib.suppress(SystemExit):
                site.remove(pod)


main()
