// UTF-8.

/** Lone surrogates become U+FFFD. */
export function encode(text) {
  // An encoded character is text of one byte each or `%XX`.
  const escaped = encodeURIComponent(text.toWellFormed());
  const bytes = new Uint8Array(escaped.length);
  let length = 0;
  for (let at = 0; at < escaped.length; at++, length++) {
    if (escaped[at] === "%") {
      bytes[length] = parseInt(escaped.slice(at + 1, at + 3), 16);
      at += 2;
    } else {
      bytes[length] = escaped.charCodeAt(at);
    }
  }
  return bytes.slice(0, length);
}

/** Bytes that are not UTF-8 become U+FFFD. */
export function decode(bytes) {
  const parts = [];
  let units = [];
  for (let at = 0; at < bytes.length; ) {
    const [code, length] = characterAt(bytes, at);
    if (code > 0xffff) units.push(0xd800 + ((code - 0x10000) >> 10), 0xdc00 + ((code - 0x10000) & 0x3ff));
    else units.push(code);
    at += length;
    if (units.length > 4_000) {
      parts.push(String.fromCharCode(...units));
      units = [];
    }
  }
  parts.push(String.fromCharCode(...units));
  return parts.join("");
}

/** The code point that begins here, and the number of its bytes. */
function characterAt(bytes, at) {
  const first = bytes[at];
  if (first < 0x80) return [first, 1];
  const length = first >= 0xf0 && first < 0xf5 ? 4 : first >= 0xe0 && first < 0xf0 ? 3 : first >= 0xc2 && first < 0xe0 ? 2 : 0;
  if (length === 0) return [0xfffd, 1];
  const least = [, , 0x80, 0x800, 0x10000][length];
  let code = first & (0xff >> (length + 1));
  for (let part = 1; part < length; part++) {
    const next = bytes[at + part];
    if (next === undefined || (next & 0xc0) !== 0x80) return [0xfffd, part];
    code = (code << 6) | (next & 0x3f);
  }
  const isWrong = code < least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000);
  return isWrong ? [0xfffd, 1] : [code, length];
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
