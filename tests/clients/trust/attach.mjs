// Attaches a signature to a published component with Sigstore's library for registries, as the action
// `actions/attest-build-provenance` does with `push-to-registry`.
//
//   node attach.mjs REPOSITORY DIGEST BUNDLE
import { readFileSync } from "node:fs";
import { attachArtifactToImage } from "@sigstore/oci";

const [imageName, imageDigest, file] = process.argv.slice(2);
const artifact = readFileSync(file);
const { mediaType } = JSON.parse(artifact);
const annotations = {
  "dev.sigstore.bundle.content": "dsse-envelope",
  "dev.sigstore.bundle.predicateType": "https://slsa.dev/provenance/v1",
};
const attached = await attachArtifactToImage({ imageName, imageDigest, artifact, mediaType, annotations });
console.log(`attached ${attached.digest}`);
