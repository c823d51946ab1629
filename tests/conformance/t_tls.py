"""TLS with certificates made for the test by certtool."""

import random
import shutil

import wire
from harness import Failure, equal, need, run, test
from t_libnbd import copy_there_and_back, over_tcp, tcp_uri

CA = "cn = \"conformance CA\"\nca\ncert_signing_key\nexpiration_days = 2\n"
SERVER = ("cn = \"localhost\"\ndns_name = \"localhost\"\ntls_www_server\nencryption_key\n"
          "signing_key\nexpiration_days = 2\n")
CLIENT = "cn = \"client\"\ntls_www_client\nencryption_key\nsigning_key\nexpiration_days = 2\n"


def certificates(folder, name="pki"):
    """A folder with a CA, a server's and a client's certificate, named as nbdkit names them."""
    need("certtool")
    pki = folder / name
    pki.mkdir()
    for who in ("ca", "server", "client"):
        run("certtool", "--generate-privkey", "--rsa", "--bits", "2048", "--outfile", pki / f"{who}-key.pem")
    for who, text in (("ca", CA), ("server", SERVER), ("client", CLIENT)):
        (pki / f"{who}.info").write_text(text, encoding="ascii")
    run("certtool", "--generate-self-signed", "--load-privkey", pki / "ca-key.pem",
        "--template", pki / "ca.info", "--outfile", pki / "ca-cert.pem")
    for who in ("server", "client"):
        run("certtool", "--generate-certificate", "--load-privkey", pki / f"{who}-key.pem",
            "--load-ca-certificate", pki / "ca-cert.pem", "--load-ca-privkey", pki / "ca-key.pem",
            "--template", pki / f"{who}.info", "--outfile", pki / f"{who}-cert.pem")
    return pki


@test("tls-copy", 90, tls=True)
def copy(case):
    copy_there_and_back(case)


@test("tls-tcp-copy", 120, tls=True, tcp=True)
def copy_over_tcp(case):
    over_tcp(case)


@test("tls-tcp-needs-a-certificate", tls=True, tcp=True)
def needs_a_certificate(case):
    """A client without one of its own is refused, over TCP too; the server stays."""
    uri = tcp_uri(case)
    alone = case.folder / "alone"
    alone.mkdir()
    shutil.copy(case.server.options.tls / "ca-cert.pem", alone)
    run("nbdinfo", "--size", uri.replace(str(case.server.options.tls), str(alone)), codes=(1,))
    run("nbdinfo", "--size", uri)


@test("tls-refuses-plain", tls=True)
def refuses_plain(case):
    """Where TLS is required nothing is served without it, and the server stays."""
    try:
        with wire.connect(case.server.socket, case.server.export):
            pass
    except (wire.Wrong, wire.Closed):
        run("nbdinfo", "--size", case.uri)
        return
    raise Failure("an export was opened without TLS")


@test("tls-garbage", tls=True)
def garbage(case):
    """Instead of a TLS hello: random bytes, nothing, or the end. A good client is still served."""
    source = random.Random(case.seed)
    held = []
    for number in range(24):
        connection = wire.Connection(case.server.socket)
        connection.greet()
        connection.send(wire.option(wire.OPT_STARTTLS))
        equal(connection.option_reply()[1], wire.REP_ACK, "reply to STARTTLS")
        if number % 3 == 0:
            connection.send(source.randbytes(source.randrange(1, 3000)))
        if number % 3 == 1:
            connection.close()
        held.append(connection)
    run("nbdinfo", "--size", case.uri, timeout=2)
    for connection in held:
        connection.close()
    run("nbdinfo", "--size", case.uri, timeout=2)
