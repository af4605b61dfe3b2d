// weather in TypeScript: a client of a JSON API.
import { component, error, setting } from "tollgate";

// The default API, unless the setting `api` names another.
const API = "https://api.open-meteo.com";
// The time for one request, unless the setting `timeout_ms` is another.
const TIMEOUT_MS = 5_000;
const MAX_ANSWER_BYTES = 256 * 1024;
// The pauses before the second and the third attempt.
const PAUSES_MS = [100, 200];

export const tool = component({
  id: "weather-ts",
  tools: [{ name: "weather_ts", category: "web", timeoutMs: 20_000, idempotent: true, execute: weather }],
});

interface Place {
  /** Degrees north, such as 52.52. */
  latitude: number;
  /** Degrees east, such as 13.41. */
  longitude: number;
}

interface Weather {
  temperature: number;
  unit: string;
  wind_speed: number;
  sky: string;
}

class Failure extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly status?: number,
  ) {
    super(message);
  }
}

/** Returns the weather at a place now. */
async function weather({ latitude, longitude }: Place) {
  if (Math.abs(latitude) > 90 || Math.abs(longitude) > 180) {
    return error("Latitude is within -90..90, longitude within -180..180.", "no_such_place");
  }
  try {
    const response = await askRepeatedly(urlOf(latitude, longitude));
    return read(await response.text());
  } catch (failure) {
    const { code, message } = failure as Failure;
    if (code) return error(message, code);
    throw failure;
  }
}

function read(text: string): Weather {
  try {
    const { current, current_units: units } = JSON.parse(text);
    return {
      temperature: number(current.temperature_2m),
      unit: units.temperature_2m,
      wind_speed: number(current.wind_speed_10m),
      sky: sky(current.weather_code),
    };
  } catch {
    throw new Failure("bad_answer", "The API did not answer with the weather.");
  }
}

function number(value: unknown): number {
  if (typeof value !== "number") throw new TypeError("a number is missing");
  return value;
}

function urlOf(latitude: number, longitude: number): URL {
  const url = new URL(`${(setting("api") ?? API).replace(/\/+$/, "")}/v1/forecast`);
  url.searchParams.set("latitude", latitude.toFixed(4));
  url.searchParams.set("longitude", longitude.toFixed(4));
  url.searchParams.set("temperature_unit", setting("units") === "imperial" ? "fahrenheit" : "celsius");
  url.searchParams.set("current", "temperature_2m,wind_speed_10m,weather_code");
  return url;
}

async function askRepeatedly(url: URL): Promise<Response> {
  for (const pause of PAUSES_MS) {
    try {
      return await ask(url);
    } catch (failure) {
      if (!isTransient(failure as Failure)) throw failure;
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
  return await ask(url);
}

async function ask(url: URL): Promise<Response> {
  const timeoutMs = Number(setting("timeout_ms") ?? TIMEOUT_MS);
  const response = await fetch(url, {
    headers: { accept: "application/json" },
    redirect: "error",
    signal: AbortSignal.timeout(timeoutMs),
    maxBodyBytes: MAX_ANSWER_BYTES,
  });
  if (response.ok) return response;
  const { status } = response;
  if (status === 404 || status === 410) throw new Failure("not_found", "The server has nothing at this address.");
  throw new Failure("http_status", `The server answered with the status ${status}.`, status);
}

const isTransient = ({ code, status }: Failure) =>
  code === "unreachable" || code === "timed_out" || [429, 502, 503, 504].includes(status ?? 0);

/** Describes the codes of the World Meteorological Organization. */
function sky(code: number): string {
  if (code === 0) return "clear";
  if (code >= 1 && code <= 3) return "clouds";
  if (code === 45 || code === 48) return "fog";
  if (code >= 51 && code <= 57) return "drizzle";
  if ((code >= 61 && code <= 67) || (code >= 80 && code <= 82)) return "rain";
  if ((code >= 71 && code <= 77) || code === 85 || code === 86) return "snow";
  if (code >= 95 && code <= 99) return "thunderstorm";
  return "unknown";
}
