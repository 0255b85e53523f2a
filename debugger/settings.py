"""One settings file: everything that differs between installations comes from the environment."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

from branches.evidence import keys

BASE = Path(__file__).resolve().parent.parent


def _flag(name: str, *, default: bool = False) -> bool:
    return os.environ.get(name, "1" if default else "0").lower() in {"1", "true", "yes", "on"}


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isdigit():
        raise ImproperlyConfigured(f"{name} must be a whole number")
    return int(text)


# Everything the product writes lies under this folder.
BRANCHGATE_VAR = Path(os.environ.get("BRANCHGATE_VAR", BASE / "var"))
BRANCHGATE_VAR.mkdir(parents=True, exist_ok=True, mode=0o700)
# Where plug-ins may go: a JSON object of target name -> options (addresses, paths, secret references).
# One file, or several as in PATH: the first that names a target counts.
BRANCHGATE_TARGETS = os.environ.get("BRANCHGATE_TARGETS", str(BRANCHGATE_VAR / "targets.json"))
# One-click sign-in of the demo people; only ever honoured from the loopback interface.
BRANCHGATE_DEMO = _flag("BRANCHGATE_DEMO")
# Approvers, destination owners and policy admins sign in with a second factor.
BRANCHGATE_REQUIRE_MFA = _flag("BRANCHGATE_REQUIRE_MFA", default=True)
# One OpenID Connect provider for signing in, where its issuer is named.
BRANCHGATE_OIDC_ISSUER = os.environ.get("BRANCHGATE_OIDC_ISSUER", "").rstrip("/")
BRANCHGATE_OIDC_NAME = os.environ.get("BRANCHGATE_OIDC_NAME", "your organisation")
# The address under which people open the pages: notices carry a link.
BRANCHGATE_URL = os.environ.get("BRANCHGATE_URL", "http://127.0.0.1:8000").rstrip("/")
# Who mails are from; without it no mail is sent.
BRANCHGATE_MAIL_FROM = os.environ.get("BRANCHGATE_MAIL_FROM", "")
BRANCHGATE_PERMIT_S = min(_number("BRANCHGATE_PERMIT_S", 900), 900)
BRANCHGATE_LEASE_S = _number("BRANCHGATE_LEASE_S", 30)
BRANCHGATE_MAX_BATCH_BYTES = 1024 * 1024
BRANCHGATE_MAX_BATCH_LINES = 1000


def _master_key() -> bytes:
    """Return the one secret from which every other key is derived."""
    text = os.environ.get("BRANCHGATE_MASTER_KEY", "")
    if not text:
        return keys.load_or_create_master(BRANCHGATE_VAR / "master-key")
    try:
        master = bytes.fromhex(text)
    except ValueError:
        master = b""
    if len(master) != keys.KEY_BYTES:
        raise ImproperlyConfigured("BRANCHGATE_MASTER_KEY must be 64 hexadecimal digits")
    return master


# 32 bytes; from the environment, or a key file made in BRANCHGATE_VAR at first use.
BRANCHGATE_MASTER_KEY = _master_key()
SECRET_KEY = os.environ.get("DJANGO_SECRET_KEY") or keys.derive_key(BRANCHGATE_MASTER_KEY, "django").hex()
DEBUG = False
ALLOWED_HOSTS = [h for h in os.environ.get("BRANCHGATE_HOSTS", "127.0.0.1,localhost,[::1]").split(",") if h]
_SECURE = _flag("BRANCHGATE_HTTPS")
CSRF_TRUSTED_ORIGINS = [f"https://{host}" for host in ALLOWED_HOSTS] if _SECURE else []

INSTALLED_APPS = [
    "branches",
    "debugger",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django_htmx",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.mfa",
    "ninja",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.csp.ContentSecurityPolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
]

ROOT_URLCONF = "debugger.urls"
WSGI_APPLICATION = "debugger.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "branches.Person"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "debugger.web.context.page_frame",
            ],
        },
    }
]


def _database(url: str) -> dict[str, Any]:
    config: dict[str, Any] = dict(dj_database_url.parse(url, conn_max_age=60))
    if config["ENGINE"].endswith("sqlite3"):
        config["CONN_MAX_AGE"] = None
        config["OPTIONS"] = {
            # The write lock is taken when a transaction begins, so nobody reads a fact and loses it.
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA recursive_triggers=ON;",
        }
    return config


_DATABASE_URL = os.environ.get("DATABASE_URL", f"sqlite:///{BRANCHGATE_VAR / 'branchgate.sqlite3'}")
DATABASES = {"default": _database(_DATABASE_URL)}
# The owner migrates; the application may only insert and select where the record lies.
if os.environ.get("DATABASE_OWNER_URL"):
    DATABASES["owner"] = _database(os.environ["DATABASE_OWNER_URL"])

CELERY_BROKER_URL = os.environ.get("CELERY_BROKER_URL", "filesystem://localhost")
_BROKER_FOLDER = BRANCHGATE_VAR / "broker"
if CELERY_BROKER_URL.startswith("filesystem:"):
    for name in ("queue", "control", "done"):
        (_BROKER_FOLDER / name).mkdir(parents=True, exist_ok=True)
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "data_folder_in": str(_BROKER_FOLDER / "queue"),
        "data_folder_out": str(_BROKER_FOLDER / "queue"),
        "control_folder": str(_BROKER_FOLDER / "control"),
        "processed_folder": str(_BROKER_FOLDER / "done"),
        "store_processed": False,
    }
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TASK_ALWAYS_EAGER = _flag("BRANCHGATE_TASKS_EAGER")
CELERY_BEAT_SCHEDULE = {
    "sweep": {"task": "branches.tasks.sweep", "schedule": 5.0},
}
# Content meets in this process's memory, or as ciphertext in Redis where several web processes run.
BRANCHGATE_EXCHANGE_URL = os.environ.get(
    "BRANCHGATE_EXCHANGE_URL", CELERY_BROKER_URL if CELERY_BROKER_URL.startswith("redis") else ""
)


def _provider_apps() -> list[dict[str, Any]]:
    """Return the OpenID Connect provider that the environment names, if any."""
    if not BRANCHGATE_OIDC_ISSUER:
        return []
    return [
        {
            "provider_id": "oidc",
            "name": BRANCHGATE_OIDC_NAME,
            "client_id": os.environ.get("BRANCHGATE_OIDC_CLIENT_ID", ""),
            "secret": os.environ.get("BRANCHGATE_OIDC_CLIENT_SECRET", ""),
            "settings": {"server_url": BRANCHGATE_OIDC_ISSUER, "oauth_pkce_enabled": True},
        }
    ]


# Counts of failed sign-ins and the one-time codes that were used: one place for all web processes.
CACHES: dict[str, dict[str, str]] = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
if BRANCHGATE_EXCHANGE_URL.startswith("redis"):
    CACHES["default"] = {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": BRANCHGATE_EXCHANGE_URL,
        "KEY_PREFIX": "branchgate",
    }

AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
# So many proxies stand in front and add to X-Forwarded-For: failures are counted by the address before them.
ALLAUTH_TRUSTED_PROXY_COUNT = _number("BRANCHGATE_PROXIES", 0)
ACCOUNT_ADAPTER = "debugger.web.accounts.ClosedAccountAdapter"
# Whoever decides proved within so many seconds who they are.
ACCOUNT_REAUTHENTICATION_TIMEOUT = 300
ACCOUNT_REAUTHENTICATION_REQUIRED = True
SOCIALACCOUNT_ADAPTER = "debugger.web.accounts.InvitedSocialAdapter"
SOCIALACCOUNT_EMAIL_VERIFICATION = "none"
SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": _provider_apps()}}
MFA_ADAPTER = "debugger.web.accounts.SealedMFAAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_TOTP_ISSUER = "Branchgate"
# A code is good for the step before and after its own too: phones' clocks are a little off.
MFA_TOTP_TOLERANCE = 1
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
ACCOUNT_LOGOUT_REDIRECT_URL = "account_login"


def _mailer(address: str) -> dict[str, Any]:
    """Return how mail leaves: `smtp://user:password@host:25`, `smtp+starttls://…` or `smtps://…`.

    Without an address it leaves nowhere.
    """
    if not address:
        return {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}
    ports = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}
    try:
        parts = urlsplit(address)
        port = parts.port or ports[parts.scheme]
    except (KeyError, ValueError):  # they would say the value
        parts, port = urlsplit(""), 0
    if not parts.hostname:
        raise ImproperlyConfigured(
            "BRANCHGATE_SMTP_URL must be smtp://, smtp+starttls:// or smtps:// and a host"
        )
    options = {
        "host": parts.hostname,
        "port": port,
        "username": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "use_tls": parts.scheme == "smtp+starttls",
        "use_ssl": parts.scheme == "smtps",
        "timeout": 10,
    }
    return {"BACKEND": "django.core.mail.backends.smtp.EmailBackend", "OPTIONS": options}


MAILERS = {"default": _mailer(os.environ.get("BRANCHGATE_SMTP_URL", ""))}

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_TZ = True
USE_THOUSAND_SEPARATOR = False

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE / "static"]
STATIC_ROOT = BRANCHGATE_VAR / "static"
STATIC_ROOT.mkdir(parents=True, exist_ok=True)
WHITENOISE_USE_FINDERS = True


def _origin(address: str) -> list[str]:
    found = urlsplit(address)
    return [f"{found.scheme}://{found.netloc}"] if found.netloc else []


SECURE_CSP = {
    "default-src": ["'none'"],
    "script-src": ["'self'"],
    "style-src": ["'self'"],
    "img-src": ["'self'", "data:"],
    "font-src": ["'self'"],
    "connect-src": ["'self'"],
    # A form that leads to the provider is sent on to its origin.
    "form-action": ["'self'", *_origin(BRANCHGATE_OIDC_ISSUER)],
    "base-uri": ["'none'"],
    "frame-ancestors": ["'none'"],
}
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = _SECURE
CSRF_COOKIE_SECURE = _SECURE
SECURE_SSL_REDIRECT = _SECURE
# Set by the proxy that ends TLS in front of us, which must not pass on a client's own.
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if _SECURE else None
SECURE_HSTS_SECONDS = 31_536_000 if _SECURE else 0
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * BRANCHGATE_MAX_BATCH_BYTES

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    # A refusal is an answer, not something to warn the operator of.
    "loggers": {"django.request": {"level": "ERROR"}},
    "root": {"handlers": ["console"], "level": os.environ.get("BRANCHGATE_LOG_LEVEL", "WARNING")},
}
