"""Verifies and signs with independent libraries for Python.

    verify.py keyless BUNDLE ROOT IDENTITY ISSUER    sigstore: a bundle with a certificate
    verify.py key BUNDLE PUBLIC_KEY                  securesystemslib: a bundle made with a key
    verify.py sign DIRECTORY NAME DIGEST             securesystemslib: signs with a new key

Exits with 1 if a bundle does not verify. `sign` writes python.sigstore.json and python.pub.
"""

import json
import sys
from pathlib import Path


def keyless(bundle: str, root: str, identity: str, issuer: str) -> None:
    from sigstore.models import Bundle, TrustedRoot
    from sigstore.verify import Verifier
    from sigstore.verify.policy import Identity

    verifier = Verifier(trusted_root=TrustedRoot.from_file(root))
    parsed = Bundle.from_json(Path(bundle).read_text())
    kind, payload = verifier.verify_dsse(parsed, Identity(identity=identity, issuer=issuer))
    statement = json.loads(payload)
    print(f"{identity} signed sha256:{statement['subject'][0]['digest']['sha256']} ({kind})")


def key(bundle: str, public: str) -> None:
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import SSlibKey

    written = json.loads(Path(bundle).read_text())["dsseEnvelope"]
    # The id of a key is a hint, which every signer chooses in another way.
    for signature in written["signatures"]:
        signature["keyid"] = "known"
    known = SSlibKey.from_crypto(load_pem_public_key(Path(public).read_bytes()), keyid="known")
    envelope = Envelope.from_dict(written)
    envelope.verify([known], 1)
    statement = json.loads(envelope.payload)
    print(f"key signed sha256:{statement['subject'][0]['digest']['sha256']}")


def sign(directory: str, name: str, digest: str) -> None:
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import CryptoSigner

    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest.removeprefix("sha256:")}}],
        "predicateType": "https://sigstore.dev/cosign/sign/v1",
        "predicate": {},
    }
    signer = CryptoSigner.generate_ecdsa()
    envelope = Envelope(json.dumps(statement).encode(), "application/vnd.in-toto+json", {})
    envelope.sign(signer)
    bundle = {
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"publicKey": {"hint": ""}},
        "dsseEnvelope": envelope.to_dict(),
    }
    Path(directory, "python.sigstore.json").write_text(json.dumps(bundle))
    Path(directory, "python.pub").write_text(signer.public_key.keyval["public"])


try:
    {"keyless": keyless, "key": key, "sign": sign}[sys.argv[1]](*sys.argv[2:])
except Exception as error:  # noqa: BLE001 - every failure is the same answer
    sys.exit(f"{type(error).__name__}: {error}")
