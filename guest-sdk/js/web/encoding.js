// UTF-8.

const MAX_UNITS = 4_000;

/** Lone surrogates become U+FFFD. */
export function encode(text) {
  const bytes = new Uint8Array(3 * text.length);
  let length = 0;
  for (let at = 0; at < text.length; at++) {
    let code = text.charCodeAt(at);
    if (code < 0x80) {
      bytes[length++] = code;
      continue;
    }
    code = text.codePointAt(at);
    if (code > 0xffff) at++;
    else if (code >= 0xd800 && code < 0xe000) code = 0xfffd;
    if (code > 0xffff) bytes[length++] = 0xf0 | (code >> 18);
    if (code > 0x7ff) bytes[length++] = code > 0xffff ? 0x80 | ((code >> 12) & 0x3f) : 0xe0 | (code >> 12);
    bytes[length++] = code > 0x7ff ? 0x80 | ((code >> 6) & 0x3f) : 0xc0 | (code >> 6);
    bytes[length++] = 0x80 | (code & 0x3f);
  }
  return bytes.slice(0, length);
}

/** Bytes that are not UTF-8 become U+FFFD. */
export function decode(bytes) {
  const parts = [];
  let units = [];
  for (let at = 0; at < bytes.length; ) {
    const ascii = endOfAscii(bytes, at);
    if (ascii > at || units.length > MAX_UNITS) {
      parts.push(String.fromCharCode(...units), String.fromCharCode.apply(null, bytes.subarray(at, ascii)));
      units = [];
      at = ascii;
      continue;
    }
    const [code, length] = characterAt(bytes, at);
    if (code > 0xffff) units.push(0xd800 + ((code - 0x10000) >> 10), 0xdc00 + ((code - 0x10000) & 0x3ff));
    else units.push(code);
    at += length;
  }
  parts.push(String.fromCharCode(...units));
  return parts.join("");
}

/** The end of the plain characters from here, of which a function takes this many at once. */
function endOfAscii(bytes, at) {
  const end = Math.min(bytes.length, at + MAX_UNITS);
  while (at < end && bytes[at] < 0x80) at++;
  return at;
}

/** The code point that begins here, and the number of its bytes. */
function characterAt(bytes, at) {
  const first = bytes[at];
  if (first < 0x80) return [first, 1];
  const length = first >= 0xf0 && first < 0xf5 ? 4 : first >= 0xe0 && first < 0xf0 ? 3 : first >= 0xc2 && first < 0xe0 ? 2 : 0;
  if (length === 0) return [0xfffd, 1];
  let code = first & (0xff >> (length + 1));
  // The second byte excludes overlong forms, surrogates, and what is beyond U+10FFFF.
  let low = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
  let high = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
  for (let part = 1; part < length; part++) {
    const next = bytes[at + part];
    if (!(next >= low && next <= high)) return [0xfffd, part];
    code = (code << 6) | (next & 0x3f);
    low = 0x80;
    high = 0xbf;
  }
  return [code, length];
}

export class TextEncoder {
  encoding = "utf-8";

  encode(text = "") {
    return encode(String(text));
  }
}

export class TextDecoder {
  encoding = "utf-8";

  constructor(label = "utf-8") {
    if (!/^utf-?8$/i.test(label)) throw new RangeError(`the encoding "${label}" is not known: only UTF-8 is`);
  }

  decode(input = new Uint8Array()) {
    const bytes = ArrayBuffer.isView(input)
      ? new Uint8Array(input.buffer, input.byteOffset, input.byteLength)
      : new Uint8Array(input);
    const text = decode(bytes);
    return text.startsWith("\uFEFF") ? text.slice(1) : text;
  }
}
