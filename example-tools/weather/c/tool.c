// weather in C: a client of a JSON API.
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tollgate.h"
#include "tollgate_http.h"

// The default API, unless the setting `api` names another.
#define API "https://api.open-meteo.com"
// The time for one request, unless the setting `timeout_ms` is another.
#define TIMEOUT_MS 5000
#define MAX_ANSWER_BYTES (256 * 1024)
#define ATTEMPTS 3
#define PAUSE_NANOSECONDS 100000000

static void put_query(json_writer *url, double latitude, double longitude) {
  const char *units = tollgate_setting("units");
  bool is_imperial = units && strcmp(units, "imperial") == 0;
  char degrees[32];
  snprintf(degrees, sizeof degrees, "%.4f", latitude);
  tollgate_http_put_query(url, "latitude", degrees);
  snprintf(degrees, sizeof degrees, "%.4f", longitude);
  tollgate_http_put_query(url, "longitude", degrees);
  tollgate_http_put_query(url, "temperature_unit", is_imperial ? "fahrenheit" : "celsius");
  tollgate_http_put_query(url, "current", "temperature_2m,wind_speed_10m,weather_code");
}

static tollgate_http_response ask(double latitude, double longitude) {
  static const tollgate_http_header accept = {"accept", "application/json"};
  const char *api = tollgate_setting("api"), *timeout = tollgate_setting("timeout_ms");
  json_writer url = {0};
  json_put(&url, api ? api : API);
  while (url.start[url.len - 1] == '/') url.len--;
  json_put(&url, "/v1/forecast");
  put_query(&url, latitude, longitude);
  tollgate_http_request request = {.url = url.start,
                                   .headers = &accept,
                                   .header_count = 1,
                                   .timeout_ms = timeout ? (uint32_t)atoi(timeout) : TIMEOUT_MS,
                                   .max_body_bytes = MAX_ANSWER_BYTES};
  tollgate_http_response response;
  for (unsigned attempt = 1;; attempt++) {
    response = tollgate_http_send(&request);
    tollgate_http_expect_success(&response);
    if (attempt == ATTEMPTS || !tollgate_http_is_transient(&response)) return response;
    nanosleep(&(struct timespec){.tv_nsec = attempt * PAUSE_NANOSECONDS}, NULL);
  }
}

// Describes the codes of the World Meteorological Organization.
static const char *sky(int64_t code) {
  if (code == 0) return "clear";
  if (code >= 1 && code <= 3) return "clouds";
  if (code == 45 || code == 48) return "fog";
  if (code >= 51 && code <= 57) return "drizzle";
  if ((code >= 61 && code <= 67) || (code >= 80 && code <= 82)) return "rain";
  if ((code >= 71 && code <= 77) || code == 85 || code == 86) return "snow";
  if (code >= 95 && code <= 99) return "thunderstorm";
  return "unknown";
}

static void answer(tollgate_call *call, json_value read) {
  json_value current = json_member(read, "current");
  json_value temperature = json_member(current, "temperature_2m"), wind = json_member(current, "wind_speed_10m");
  json_value unit = json_member(json_member(read, "current_units"), "temperature_2m");
  if (isnan(json_number(temperature, NAN)) || isnan(json_number(wind, NAN)) || unit.len == 0) {
    tollgate_fail(call, "bad_answer", "The API did not answer with the weather.");
    return;
  }
  const char *words = sky(json_integer(json_member(current, "weather_code"), -1));
  json_writer data = {0};
  json_put(&data, "{\"temperature\":");
  json_put_value(&data, temperature);
  json_put(&data, ",\"unit\":");
  json_put_value(&data, unit);
  json_put(&data, ",\"wind_speed\":");
  json_put_value(&data, wind);
  json_put(&data, ",\"sky\":");
  json_put_string(&data, words, strlen(words));
  json_put(&data, "}");
  tollgate_succeed(call, &data);
}

static void weather(tollgate_call *call) {
  double latitude = json_number(json_member(call->args, "latitude"), NAN);
  double longitude = json_number(json_member(call->args, "longitude"), NAN);
  if (!(fabs(latitude) <= 90 && fabs(longitude) <= 180)) {
    tollgate_fail(call, "no_such_place", "Latitude is within -90..90, longitude within -180..180.");
    return;
  }
  tollgate_http_response response = ask(latitude, longitude);
  if (response.error) {
    tollgate_fail(call, response.error, response.message);
  } else if (response.truncated) {
    char message[64];
    snprintf(message, sizeof message, "The answer is longer than %d bytes.", MAX_ANSWER_BYTES);
    tollgate_fail(call, "too_large", message);
  } else {
    answer(call, (json_value){response.body.start, response.body.len});
  }
}

static const tollgate_tool tools[] = {{
    .name = "weather_c",
    .id = "weather-c",
    .description = "Returns the weather at a place now.",
    .category = "web",
    .timeout_ms = 20000,
    .idempotent = true,
    .execute = weather,
    .parameters = "{\"type\":\"object\",\"required\":[\"latitude\",\"longitude\"],\"additionalProperties\":false,"
                  "\"properties\":{"
                  "\"latitude\":{\"type\":\"number\",\"description\":\"Degrees north, such as 52.52.\"},"
                  "\"longitude\":{\"type\":\"number\",\"description\":\"Degrees east, such as 13.41.\"}}}",
}};

const tollgate_component_descriptor tollgate_component = {
    .id = "weather-c", .version = "0.1.0", .tools = tools, .tool_count = 1};
