"""weather in Python: a client of a JSON API."""

import time

from tollgate import Answer, Component, Context, error, http

API = "https://api.open-meteo.com"
"""The default API, unless the setting `api` names another."""
TIMEOUT_MS = "5000"
"""The time for one request, unless the setting `timeout_ms` is another."""
MAX_ANSWER_BYTES = 256 * 1024
PAUSES = (0.1, 0.2)
"""The pauses before the second and the third attempt, in seconds."""

component = Component("weather-py")


@component.tool(category="web", timeout_ms=20_000, idempotent=True)
def weather_py(ctx: Context, latitude: float, longitude: float) -> "dict | Answer":
    """Returns the weather at a place now.

    Args:
        latitude: Degrees north, such as 52.52.
        longitude: Degrees east, such as 13.41.
    """
    if abs(latitude) > 90 or abs(longitude) > 180:
        return error("Latitude is within -90..90, longitude within -180..180.", "no_such_place")
    try:
        response = ask_repeatedly(ctx, latitude, longitude)
    except http.HTTPError as failure:
        return error(failure.message, failure.code)
    try:
        answer = response.json()
        current, unit = answer["current"], answer["current_units"]["temperature_2m"]
        temperature, wind = current["temperature_2m"], current["wind_speed_10m"]
        if not all(isinstance(value, (int, float)) for value in (temperature, wind)):
            raise ValueError("a number is missing")
        return {"temperature": temperature, "unit": unit, "wind_speed": wind, "sky": sky(current["weather_code"])}
    except (ValueError, KeyError, TypeError):
        return error("The API did not answer with the weather.", "bad_answer")


def ask_repeatedly(ctx: Context, latitude: float, longitude: float) -> http.Response:
    for pause in PAUSES:
        try:
            return ask(ctx, latitude, longitude)
        except http.HTTPError as failure:
            if not failure.is_transient:
                raise
        time.sleep(pause)
    return ask(ctx, latitude, longitude)


def ask(ctx: Context, latitude: float, longitude: float) -> http.Response:
    api = (ctx.setting("api") or API).rstrip("/")
    response = http.get(
        f"{api}/v1/forecast",
        params={
            "latitude": f"{latitude:.4f}",
            "longitude": f"{longitude:.4f}",
            "temperature_unit": "fahrenheit" if ctx.setting("units") == "imperial" else "celsius",
            "current": "temperature_2m,wind_speed_10m,weather_code",
        },
        headers={"accept": "application/json"},
        timeout=int(ctx.setting("timeout_ms") or TIMEOUT_MS) / 1000,
        max_bytes=MAX_ANSWER_BYTES,
        allow_redirects=False,
    )
    return response.raise_for_status()


def sky(code: int) -> str:
    """Describes the codes of the World Meteorological Organization."""
    kinds = {
        "clear": [(0, 0)],
        "clouds": [(1, 3)],
        "fog": [(45, 45), (48, 48)],
        "drizzle": [(51, 57)],
        "rain": [(61, 67), (80, 82)],
        "snow": [(71, 77), (85, 86)],
        "thunderstorm": [(95, 99)],
    }
    for words, ranges in kinds.items():
        if any(first <= code <= last for first, last in ranges):
            return words
    return "unknown"


Tool = component.export()
