"""A real Dovecot of a test's own: its own configuration, ports and mail folder, ended by its own id."""

import imaplib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from debugger.supervisor import free_port
from tests.patience import PATIENCE_S, comes

USER, PASSWORD = "desk@example.org", "s3cret-Pa55"
CONFIGURATION = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
protocols = imap
listen = 127.0.0.1
default_login_user = {login}
default_internal_user = {internal}
default_internal_group = {group}
disable_plaintext_auth = no
auth_failure_delay = 0
mail_location = maildir:{folder}/mail
first_valid_uid = 1
ssl = yes
ssl_cert = <{folder}/cert.pem
ssl_key = <{folder}/key.pem
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {plain}
  }}
  inet_listener imaps {{
    port = {tls}
    ssl = yes
  }}
}}
service anvil {{
  chroot =
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={folder}/mail
}}
"""


class MailServer:
    """A server with one mailbox's owner; mail is put in over IMAP."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mail-"))
        self.folder.chmod(0o755)
        self.plain, self.tls = free_port(), free_port()
        self.ca_file = self.folder / "cert.pem"
        certify(self.folder)
        (self.folder / "mail").mkdir()
        (self.folder / "dovecot.conf").write_text(self._configuration())
        self.running = subprocess.Popen(
            ["dovecot", "-F", "-c", str(self.folder / "dovecot.conf")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._await()

    def _configuration(self) -> str:
        is_root = os.geteuid() == 0
        own = pwd.getpwuid(os.geteuid()).pw_name
        owner = pwd.getpwnam("mail" if is_root else own)
        if is_root:
            os.chown(self.folder / "mail", owner.pw_uid, owner.pw_gid)
        return CONFIGURATION.format(
            folder=self.folder,
            login="dovenull" if is_root else own,
            internal="dovecot" if is_root else own,
            group="dovecot" if is_root else own,
            plain=self.plain,
            tls=self.tls,
            password=PASSWORD,
            uid=owner.pw_uid,
            gid=owner.pw_gid,
        )

    def _await(self) -> None:
        if not comes(lambda: self.running.poll() is not None or self._answers()):
            said = self._said()
            self.close()
            raise RuntimeError(f"dovecot did not start: {said}")

    def _answers(self) -> bool:
        with suppress(OSError, imaplib.IMAP4.error), self.session():
            return True
        return False

    def _said(self) -> str:
        log = self.folder / "log"
        return log.read_text() if log.exists() else "nothing"

    def session(self) -> imaplib.IMAP4:
        signed_in = imaplib.IMAP4("127.0.0.1", self.plain, timeout=PATIENCE_S)
        signed_in.login(USER, PASSWORD)
        return signed_in

    def put(self, message: bytes, *, mailbox: str = "INBOX", at: datetime | None = None) -> None:
        with self.session() as signed_in:
            signed_in.create(mailbox)
            when = imaplib.Time2Internaldate(at or datetime.now(UTC))
            assert signed_in.append(mailbox, "", when, message)[0] == "OK"

    def empty(self, *mailboxes: str) -> None:
        with self.session() as signed_in:
            for name in mailboxes:
                if signed_in.select(name)[0] == "OK":
                    signed_in.store("1:*", "+FLAGS", "\\Deleted") if signed_in.search(None, "ALL")[1][
                        0
                    ] else None
                    signed_in.expunge()

    def close(self) -> None:
        self.running.send_signal(signal.SIGTERM)
        self.running.wait(timeout=PATIENCE_S)
        shutil.rmtree(self.folder, ignore_errors=True)


def certify(folder: Path) -> None:
    """Write a key and a certificate of its own for localhost."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
