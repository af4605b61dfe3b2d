// Signs digests with Sigstore's own library against authorities and logs of its test package, offline.
//
//   node sign.mjs DIRECTORY NAME DIGEST key|logged|github|person
//   node sign.mjs DIRECTORY NAME DIGEST bytes MANIFEST
//
// Writes DIRECTORY/KIND.sigstore.json, and with it the key (KIND.pub) and the authorities and logs
// that vouch for it (KIND.root.json). `logged` is a key whose signature is in a log, and `bytes` a
// person's signature of the bytes of a manifest.
import { createHash, createPublicKey, generateKeyPairSync, sign, X509Certificate } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { bundleToJSON } from "@sigstore/bundle";
import { TrustedRoot } from "@sigstore/protobuf-specs";
import { DSSEBundleBuilder, FulcioSigner, MessageSignatureBundleBuilder, RekorWitness } from "@sigstore/sign";

const require = createRequire(import.meta.url);
const mock = require("@sigstore/mock");
const nock = require("nock");

const [directory, name, digest, kind, manifest] = process.argv.slice(2);
const statement = Buffer.from(
  JSON.stringify({
    _type: "https://in-toto.io/Statement/v1",
    subject: [{ name, digest: { sha256: digest.replace("sha256:", "") } }],
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {},
  }),
);
const artifact = { data: statement, type: "application/vnd.in-toto+json" };
const pair = () => generateKeyPairSync("ec", { namedCurve: "P-256" });
const write = (end, content) => writeFileSync(`${directory}/${kind}.${end}`, content);

function keySigner() {
  const { privateKey, publicKey } = pair();
  const pem = publicKey.export({ format: "pem", type: "spki" });
  const hint = createHash("sha256").update(publicKey.export({ format: "der", type: "spki" })).digest("base64");
  write("pub", pem);
  return {
    sign: async (data) => ({
      signature: sign("sha256", data, privateKey),
      key: { $case: "publicKey", publicKey: pem, hint },
    }),
  };
}

// The claims of an identity token, whose signature is not checked here.
const CLAIMS = {
  github: {
    iss: "https://token.actions.githubusercontent.com",
    sub: "https://github.com/acme/tools/.github/workflows/release.yml@refs/tags/v1",
    repository: "acme/tools",
    repository_id: "1234",
    ref: "refs/tags/v1",
    sha: "193b5bd7d3985809503963ae400594ea16df31cf",
    workflow_ref: "acme/tools/.github/workflows/release.yml@refs/tags/v1",
    job_workflow_ref: "acme/tools/.github/workflows/release.yml@refs/tags/v1",
    event_name: "push",
  },
  person: { iss: "https://accounts.example.com", sub: "https://example.com/ada" },
};
CLAIMS.bytes = CLAIMS.person;

// A certificate or key with the line breaks of PEM, as the log writes it.
const wrapped = (text) => {
  const pem = Buffer.from(text, "base64");
  const isKey = pem.includes("PUBLIC KEY");
  const lines = isKey ? createPublicKey(pem).export({ format: "pem", type: "spki" }) : new X509Certificate(pem).toString();
  return Buffer.from(lines).toString("base64");
};

// The entry that the log makes of a proposed one: hashes in place of the content. One of bytes has them already.
function logged({ apiVersion, kind, spec }) {
  if (kind === "hashedrekord") return { apiVersion, kind, spec };
  const { envelope, verifiers } = spec.proposedContent;
  const { payload, signatures } = JSON.parse(envelope);
  const hashed = (bytes) => ({ algorithm: "sha256", value: createHash("sha256").update(bytes).digest("hex") });
  return {
    apiVersion,
    kind,
    spec: {
      envelopeHash: hashed(envelope),
      payloadHash: hashed(Buffer.from(payload, "base64")),
      signatures: signatures.map(({ sig }, at) => ({ signature: sig, verifier: wrapped(verifiers[at]) })),
    },
  };
}

async function withLog() {
  const fulcioURL = "https://fulcio.example.com";
  const rekorURL = "https://rekor.example.com";
  const [caKey, ctKey, logKey] = [pair(), pair(), pair()];
  const ctLog = await mock.initializeCTLog(ctKey);
  const ca = await mock.initializeCA(caKey, ctLog);
  const log = await mock.initializeTLog(rekorURL, logKey);
  const certify = mock.fulcioHandler(ca);
  nock(fulcioURL)
    .post(certify.path)
    .reply(async (_, body) => {
      const { statusCode, response } = await certify.fn(JSON.stringify(body));
      return [statusCode, response, { "Content-Type": "application/json" }];
    });
  nock(rekorURL)
    .post("/api/v1/log/entries")
    .reply(async (_, body) => [201, await log.log(logged(body)), { "Content-Type": "application/json" }]);
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const token = `${part({ alg: "none" })}.${part({ aud: "sigstore", ...CLAIMS[kind] })}.`;
  const signer =
    kind === "logged"
      ? keySigner()
      : new FulcioSigner({ fulcioBaseURL: fulcioURL, identityProvider: { getToken: async () => token } });
  const witnesses = [new RekorWitness({ rekorBaseURL: rekorURL, entryType: "dsse" })];
  const bundle =
    kind === "bytes"
      ? await new MessageSignatureBundleBuilder({ signer, witnesses }).create({ data: readFileSync(manifest) })
      : await new DSSEBundleBuilder({ signer, witnesses }).create(artifact);

  const start = new Date(Date.now() - 3_600_000).toISOString();
  const logOf = (baseUrl, key) => {
    const der = key.publicKey.export({ format: "der", type: "spki" });
    const id = createHash("sha256").update(der).digest("base64");
    return {
      baseUrl,
      hashAlgorithm: "SHA2_256",
      publicKey: {
        rawBytes: der.toString("base64"),
        keyDetails: "PKIX_ECDSA_P256_SHA_256",
        validFor: { start },
      },
      logId: { keyId: id },
    };
  };
  const root = {
    mediaType: "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
    tlogs: [logOf(rekorURL, logKey)],
    certificateAuthorities: [
      {
        subject: { organization: "sigstore.mock", commonName: "sigstore" },
        uri: fulcioURL,
        certChain: { certificates: [{ rawBytes: Buffer.from(ca.rootCertificate).toString("base64") }] },
        validFor: { start },
      },
    ],
    ctlogs: [logOf("https://ctfe.example.com", ctKey)],
    timestampAuthorities: [],
  };
  // It is one, as the library itself reads it.
  TrustedRoot.fromJSON(root);
  write("root.json", JSON.stringify(root));
  return bundle;
}

const withKey = () => new DSSEBundleBuilder({ signer: keySigner(), witnesses: [] }).create(artifact);
const bundle = bundleToJSON(kind === "key" ? await withKey() : await withLog());
for (const { inclusionProof } of bundle.verificationMaterial.tlogEntries ?? []) {
  // Zero and the empty list are left out, and other libraries ask for them.
  inclusionProof.logIndex ??= "0";
  inclusionProof.hashes ??= [];
}
write("sigstore.json", JSON.stringify(bundle));
