"""Errors of clients of remote objects, as the errors of dfgen that they are.

Nothing of what a server answers is quoted but its status and the name of its error: an answer, and
the address of a request, may hold keys and tokens.
"""

import re

from dfgen.errors import (
    AccessError,
    ArgumentError,
    DecodeError,
    DfgenError,
    MissingFileError,
    ReadError,
    RefusedError,
)

_STATUS = re.compile(r"status code: (\d{3})(?: ([A-Z][A-Za-z -]*[A-Za-z]))?")
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")
_NO_KEYS = re.compile(r"169\.254\.|token request|latest/api/token|Account must be specified|"
                      r"[Mm]issing credential|No credentials")  # fmt: skip
_CERTIFICATE = re.compile(
    r"InvalidCertificate\(\s*(?:Other\(\s*OtherError\(\s*([A-Za-z]+)|([A-Za-z]+))"
)
_KEY = re.compile(r'[Pp]ath "(.*?)"[: ]')

_OPEN_TO_ALL = '; for one that is open to all give {"skip_signature": True}'
_AWS = (
    "storage_options= (access_key_id, secret_access_key), the environment (AWS_ACCESS_KEY_ID, "
    "AWS_SECRET_ACCESS_KEY, ...), and the machine's own role. ~/.aws is not looked at: for it give "
    'storage_options={"credential_provider": obstore.auth.boto3.Boto3CredentialProvider()}'
    + _OPEN_TO_ALL
)
_GOOGLE = (
    "storage_options= (service_account), the environment (GOOGLE_APPLICATION_CREDENTIALS, "
    "GOOGLE_SERVICE_ACCOUNT), gcloud's own file, and the machine's own account" + _OPEN_TO_ALL
)
_AZURE = (
    "storage_options= (account_name, account_key, sas_key, token), the environment "
    "(AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY, ...), and the machine's own identity"
    + _OPEN_TO_ALL
)
_ONE_ALONE = (
    "the permission or the file is missing, and stores that may not be listed answer the same "
    "to both"
)
_ONE_REFUSED = (
    f". If these are right, {_ONE_ALONE}. If other files can be read, "
    'on_error="skip" skips such a row'
)
_HTTP = 'storage_options= ({"client_options": {"default_headers": {"Authorization": ...}}})'


def looked_for(scheme: str) -> str:
    """Return where credentials of a scheme are looked for."""
    by_begin = {"s3": _AWS, "g": _GOOGLE, "a": _AZURE}
    return next((text for begin, text in by_begin.items() if scheme.startswith(begin)), _HTTP)


def error_of_object(
    error: Exception, scheme: str, bucket: str, reached: bool = False
) -> DfgenError:
    """Return what to raise for what obstore has raised over one object.

    `bucket` may be a container or host; `reached`: whether others of it could be read, so that the
    credentials are right.
    """
    text, kind = str(error), type(error).__name__
    found, code = _STATUS.search(text), _CODE.search(text)
    status = int(found[1]) if found else 0
    name = " ".join(filter(None, (*found.groups(),))) if found else ""
    shown = ", ".join(filter(None, (name, code and code[1])))
    if code and code[1] in _NO_BUCKET:
        return AccessError(f"the file cannot be read: there is no bucket {bucket!r} ({shown})")
    if isinstance(error, FileNotFoundError):
        return MissingFileError("the file does not exist")
    if _NO_KEYS.search(text):
        return AccessError(
            f"the file cannot be read: no credentials for {scheme}://{bucket} were found. Looked "
            f"for in {looked_for(scheme)}"
        )
    if status == 403 and reached and (code is None or code[1] == "AccessDenied"):
        return DecodeError(
            f"the file cannot be read: {scheme}://{bucket} refuses it ({shown}), while others "
            f"could be read: {_ONE_ALONE}"
        )
    if status in (401, 403) or kind in ("PermissionDeniedError", "UnauthenticatedError"):
        return (RefusedError if status == 403 else AccessError)(
            f"the file cannot be read: {scheme}://{bucket} refuses it ({shown or kind}). "
            f"Credentials come from {looked_for(scheme)}" + _ONE_REFUSED * (status == 403)
        )
    if found := _CERTIFICATE.search(text):
        return AccessError(
            f"the file cannot be read: the certificate of {scheme}://{bucket} is not trusted "
            f"({found[1] or found[2]}). Give the one that it is signed by as storage_options="
            '{"root_certificate": Path("ca.pem").read_bytes()}, or, where nobody can listen, '
            '{"allow_invalid_certificates": True}'
        )
    if "InvalidContentType" in text:
        return AccessError(
            "the file cannot be read: the server answers https:// without encryption: its address "
            "or its endpoint begins with http://, or has another port"
        )
    if kind in ("ValueError", "InvalidPathError"):
        return DecodeError(
            "the file cannot be read: its address has an empty part, . or .. for one, or a "
            "control character, which no store takes"
        )
    if "MissingContentLength" in text:
        return as_sent("does not say how long the file is (no Content-Length)")
    return ReadError(f"the file cannot be read: {_passing(text, shown, status)}")


def as_sent(what: str) -> DecodeError:
    """Return what to raise where a server does not send the bytes of a file as they are."""
    return DecodeError(
        f"the file cannot be read: its server {what}. Have it send files as they lie on its disk, "
        "neither compressed nor in chunks, or copy them from it (curl --compressed)"
    )


def error_of_listing(error: Exception, scheme: str, bucket: str) -> DfgenError:
    """Return what to raise for what obstore has raised over a listing: it may name an object."""
    found = error_of_object(error, scheme, bucket)
    key = _KEY.search(str(error))
    if not (key and isinstance(found, DecodeError)):
        return found
    return DecodeError(
        f"the object {key[1]!r} has an empty part in its key, . or .. for one, or a control "
        "character, which no store takes: rename it, or give a table of the others, labels= with "
        "path_column="
    )


def _passing(text: str, shown: str, status: int) -> str:
    retries = re.search(r"after (\d+) retries", text)
    tried = f" after {int(retries[1]) + 1} tries" if retries else ""
    if "Received redirect" in text or status in (301, 307, 308):
        return 'the bucket is elsewhere: give its region as storage_options={"region": ...}'
    if "following redirect" in text:
        return "the server sends to other addresses in a circle, or more than 10 times"
    if status:
        return f"the server answers {shown}{tried}"
    if "BadScheme" in text or "builder error" in text:
        return (
            'http:// is not encrypted: if you want that, give storage_options={"allow_http": True}'
        )
    if "Timeout" in text or "TimedOut" in text:
        return f"the server stopped answering{tried}"
    if "body error" in text or "IncompleteBody" in text:
        return "the connection was closed before the whole file had come"
    if "dns error" in text:
        return f"the name of its server is not known{tried}"
    if "sending request" in text:
        return f"the server cannot be reached, or closes connections{tried}"
    return f"the server's answer makes no sense{tried}"


def error_of_options(error: Exception, scheme: str, names: list[str]) -> DfgenError:
    """Return what to raise where a store cannot be made: it names options, never their values."""
    if _NO_KEYS.search(str(error)):
        return AccessError(
            f"the file cannot be read: no credentials for {scheme}:// were found. Looked for in "
            f"{looked_for(scheme)}"
        )
    key = re.search(r"Configuration key: '([A-Za-z0-9_]+)'", str(error))
    twice = re.search(r"Duplicate key ([A-Za-z0-9_]+) provided", str(error))
    fault = f"{key[1]!r} is none of its options" if key else "a value is invalid"
    fault = f"{twice[1]} is also in the address" if twice else fault
    page = {"g": "gcs", "a": "azure", "h": "http"}.get(scheme[0], "aws")
    return ArgumentError(
        f"storage_options cannot open {scheme}://: {fault}. Given: {', '.join(names) or 'none'}. "
        "They are those of obstore's store of that scheme, "
        f"https://developmentseed.org/obstore/latest/api/store/{page}/"
    )
