"""PostgreSQL and an S3 server as the tests of sites start them."""
import pathlib
import subprocess

# `scripts/prepare --tests` compiles it.
S3_SERVER = pathlib.Path.home() / ".cache/mfaas-tests/bin/versitygw"
_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


def _openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def make_authority(directory):
    """An authority for servers of databases: `ca.pem` and `key` in the directory, which is made."""
    directory.mkdir()
    _openssl("req", "-x509", *_KEY, "-days", 2, "-subj", "/CN=database", "-keyout", directory / "key", "-out", directory / "ca.pem")


def certify(authority, name, into):
    """A certificate for one name: `server.pem` and `server.key`."""
    _openssl("req", *_KEY, "-subj", f"/CN={name}", "-keyout", into / "server.key", "-out", authority / "request")
    (authority / "names").write_text(f"subjectAltName=DNS:{name}\n")
    _openssl("x509", "-req", "-in", authority / "request", "-CA", authority / "ca.pem", "-CAkey", authority / "key", "-CAcreateserial",
             "-days", 2, "-extfile", authority / "names", "-out", into / "server.pem")


def postgres(program, *arguments):
    """The command of one of PostgreSQL's programs, which refuse root."""
    newest = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))[-1].parent
    command = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups", newest / program, *arguments]
    return [str(part) for part in command]


def postgres_server(data):
    """The command of a server of the cluster `data`/data, with `certify`'s files and sockets in `data`."""
    settings = {"listen_addresses": "*", "ssl": "on", "ssl_cert_file": data / "server.pem", "ssl_key_file": data / "server.key",
                "max_connections": 200}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    return postgres("postgres", "-D", data / "data", "-k", data, *options)


def s3_server(objects, metadata):
    """The command of a store at port 9000 with a bucket for each directory in `objects`. Who may use it is said by
    ROOT_ACCESS_KEY and ROOT_SECRET_KEY."""
    return [str(part) for part in (S3_SERVER, "--port", "0.0.0.0:9000", "posix", "--sidecar", metadata, objects)]
