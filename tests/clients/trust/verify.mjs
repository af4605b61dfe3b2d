// Verifies a bundle with Sigstore's own library, and prints who signed which digest.
//
//   node verify.mjs BUNDLE --key FILE       a bundle that was made with a key
//   node verify.mjs BUNDLE --root FILE      one with a certificate
//
// Exits with 1 if the bundle does not verify.
import { createPublicKey } from "node:crypto";
import { readFileSync } from "node:fs";
import { bundleFromJSON } from "@sigstore/bundle";
import { TrustedRoot } from "@sigstore/protobuf-specs";
import { toSignedEntity, toTrustMaterial, Verifier } from "@sigstore/verify";

const [file, how, material] = process.argv.slice(2);
const bundle = bundleFromJSON(JSON.parse(readFileSync(file, "utf8")));
const isKey = how === "--key";
let trust;
if (isKey) {
  const none = { tlogs: [], ctlogs: [], certificateAuthorities: [], timestampAuthorities: [] };
  const root = TrustedRoot.fromJSON({ mediaType: "", ...none });
  const publicKey = createPublicKey(readFileSync(material));
  trust = toTrustMaterial(root, () => ({ publicKey, validFor: () => true }));
} else {
  trust = toTrustMaterial(TrustedRoot.fromJSON(JSON.parse(readFileSync(material, "utf8"))));
}
const threshold = isKey ? 0 : 1;
const verifier = new Verifier(trust, { tlogThreshold: threshold, ctlogThreshold: threshold, timestampThreshold: threshold });
try {
  const signer = verifier.verify(toSignedEntity(bundle));
  const { payload } = bundle.content.dsseEnvelope;
  const statement = JSON.parse(payload.toString());
  const identity = signer.identity?.subjectAlternativeName ?? "key";
  console.log(`${identity} signed sha256:${statement.subject[0].digest.sha256}`);
} catch (error) {
  console.error(`${error.name}: ${error.message}`);
  process.exit(1);
}
