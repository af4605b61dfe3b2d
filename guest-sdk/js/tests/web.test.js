// The web's interfaces of a component, compared with those of the program that runs the
// tests: node --test.
import assert from "node:assert/strict";
import { test } from "node:test";
import { decode, encode } from "../web/encoding.js";
import * as own from "../web/url.js";

const Native = globalThis.Promise;

const URLS = [
  "https://a.test", "HTTP://A.Test:80/", "https://a.test:8443/x/../y/./z?q=1&r=a b#part one", "http://[::1]:8080/a",
  "https://user:pa:ss@a.test/", "https://a.test/%2e%2e/%2E/x", "https://a.test/ä/ü?ö#ß", "https://a.test\\x\\y",
  "mailto:a@b.test", "data:text/plain,x y", "https:a.test/x", "https:///a.test", "https://a.test/?a='b'", "https://a.test?x",
  "javascript:alert(1)", " https://a.test/\n x ", "https://a.test/a|b{c}", "https://%61.test/",
];
const RELATIVE = ["", "x", "./x", "../x", "../../x", "/x", "//b.test/x", "?q", "#f", "x?q#f", "https://c.test", "/a/../b", ".", ".."];
const WRONG = ["", "a.test", "https://", "http://a b/", "https://a.test:99999/", "https://a.test:x/", "//a.test"];

test("a URL has the parts that it has elsewhere", () => {
  for (const text of URLS) assert.equal(new own.URL(text).href, new URL(text).href, text);
  const part = (url, name) => `${name}: ${url[name]}`;
  for (const text of URLS.slice(0, 8)) {
    for (const name of ["origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash"]) {
      assert.equal(part(new own.URL(text), name), part(new URL(text), name), text);
    }
  }
  for (const text of WRONG) assert.throws(() => new own.URL(text), TypeError, text);
});

test("a relative URL is resolved as it is elsewhere", () => {
  for (const base of ["https://a.test/docs/page?x=1#y", "http://a.test"]) {
    for (const text of RELATIVE) assert.equal(new own.URL(text, base).href, new URL(text, base).href, `${text} from ${base}`);
  }
});

test("parameters change the URL, and the URL its parameters", () => {
  const changed = (Kind) => {
    const url = new Kind("https://a.test/?b=2&a=1&b=3#f");
    const { searchParams } = url;
    searchParams.set("b", "x y&z=ä");
    searchParams.append("c", "*-._~!'()");
    searchParams.delete("a");
    const first = url.href;
    url.search = "?q=%C3%BC+%zz";
    url.pathname = "/a b";
    url.hash = "end";
    return [first, url.href, [...searchParams], searchParams.get("q"), searchParams.has("b"), String(searchParams)];
  };
  assert.deepEqual(changed(own.URL), changed(URL));
});

test("text becomes UTF-8 and back", () => {
  for (const text of ["", "plain", "ä € 😀 \u{10FFFF}", "lone \ud800 surrogate", "x".repeat(10_000)]) {
    assert.deepEqual(encode(text), new TextEncoder().encode(text));
    assert.equal(decode(encode(text)), text.toWellFormed());
  }
  assert.equal(decode(Uint8Array.of(0x61, 0xff, 0x62)), "a\ufffdb");
  const wrong = [[0xc3], [0xe0, 0x9f, 0x80], [0xed, 0xa0, 0x80], [0xf0, 0x8f, 0x80, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xf0, 0x9f, 0x98]];
  for (const bytes of wrong.map((bytes) => Uint8Array.of(0x61, ...bytes, 0x62))) {
    assert.equal(decode(bytes), new TextDecoder().decode(bytes), `${bytes}`);
  }
});

test("promises run their callbacks in order, before `settle` returns", async () => {
  const { Promise: Own, settle, whenIdle } = await import("../web/promise.js");
  globalThis.Promise = Native;
  const order = [];
  const later = Own.withResolvers();
  Own.resolve(1).then((value) => order.push(value)).then(() => order.push(3));
  Own.reject(new Error("no")).catch(() => order.push(2)).finally(() => order.push(4));
  let isIdle = 0;
  whenIdle(() => isIdle++ === 0 && (later.resolve("late"), true));
  assert.equal(settle(later.promise.then((value) => `${value}!`)), "late!");
  assert.deepEqual(order, [1, 2, 3, 4]);
  assert.deepEqual(settle(Own.all([1, Own.resolve(2), { then: (resolve) => resolve(3) }])), [1, 2, 3]);
  assert.deepEqual(settle(Own.all([])), []);
  assert.throws(() => settle(Own.all([1, Own.reject(new TypeError("two"))])), { message: "two" });
  assert.equal(settle(Own.race([new Own(() => {}), Own.resolve("first")])), "first");
  assert.equal(settle(Own.any([Own.reject(1), Own.resolve(2)])), 2);
  assert.throws(() => settle(Own.any([Own.reject(1)])), AggregateError);
  assert.deepEqual(settle(Own.allSettled([Own.reject(1), 2])), [{ status: "rejected", reason: 1 }, { status: "fulfilled", value: 2 }]);
  assert.throws(() => settle(new Own(() => {})), /waits for something that never happens/);
  assert.throws(() => settle(Own.try(() => { throw new RangeError("three"); })), RangeError);
});
