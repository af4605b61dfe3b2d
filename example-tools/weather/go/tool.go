// weather in Go: a client of a JSON API.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tollgate.dev/tool"
	_ "tollgate.dev/tool/web"
)

const (
	// api is the default API, unless the setting `api` names another.
	api = "https://api.open-meteo.com"
	// timeoutMS is the time for one request, unless the setting `timeout_ms` is another.
	timeoutMS      = 5000
	maxAnswerBytes = 256 * 1024
)

// pauses are those before the second and the third attempt.
var pauses = []time.Duration{100 * time.Millisecond, 200 * time.Millisecond}

func init() {
	described := tool.New("weather_go", "Returns the weather at a place now.", weather)
	described.Category = "web"
	described.TimeoutMS = 20_000
	described.Idempotent = true
	tool.Serve(tool.Component{ID: "weather-go", Version: "0.1.0", Tools: []tool.Tool{described}})
}

func main() {}

type args struct {
	Latitude  float64 `json:"latitude" desc:"Degrees north, such as 52.52."`
	Longitude float64 `json:"longitude" desc:"Degrees east, such as 13.41."`
}

type result struct {
	Temperature float64 `json:"temperature"`
	Unit        string  `json:"unit"`
	WindSpeed   float64 `json:"wind_speed"`
	Sky         string  `json:"sky"`
}

// A failure is the tool's own error, with a code.
type failure struct {
	code, message string
	isTransient   bool
}

func (f failure) Error() string { return f.message }

func weather(call *tool.Call, args args) (any, error) {
	if math.Abs(args.Latitude) > 90 || math.Abs(args.Longitude) > 180 {
		return tool.Error("no_such_place", "Latitude is within -90..90, longitude within -180..180."), nil
	}
	body, err := askRepeatedly(call, args)
	var answer result
	if err == nil {
		answer, err = read(body)
	}
	var known failure
	if errors.As(err, &known) {
		return tool.Error(known.code, known.message), nil
	}
	return answer, err
}

func askRepeatedly(call *tool.Call, args args) (body []byte, err error) {
	for _, pause := range pauses {
		var known failure
		if body, err = ask(call, args); !errors.As(err, &known) || !known.isTransient {
			return body, err
		}
		time.Sleep(pause)
	}
	return ask(call, args)
}

func ask(call *tool.Call, args args) ([]byte, error) {
	milliseconds := timeoutMS
	if text, is := call.Setting("timeout_ms"); is {
		milliseconds, _ = strconv.Atoi(text)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(milliseconds)*time.Millisecond)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, urlOf(call, args), nil)
	if err != nil {
		return nil, failure{code: "bad_request", message: err.Error()}
	}
	request.Header.Set("Accept", "application/json")
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		var known *tool.HTTPError
		if errors.As(err, &known) {
			return nil, failure{known.Code, known.Message, known.Temporary()}
		}
		return nil, err
	}
	defer response.Body.Close()
	if err := successful(response); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes+1))
	if len(body) > maxAnswerBytes {
		return nil, failure{code: "too_large", message: fmt.Sprintf("The answer is longer than %d bytes.", maxAnswerBytes)}
	}
	return body, err
}

func urlOf(call *tool.Call, args args) string {
	base := api
	if setting, is := call.Setting("api"); is {
		base = setting
	}
	unit := "celsius"
	if units, _ := call.Setting("units"); units == "imperial" {
		unit = "fahrenheit"
	}
	return fmt.Sprintf("%s/v1/forecast?latitude=%.4f&longitude=%.4f&temperature_unit=%s&current=%s",
		strings.TrimRight(base, "/"), args.Latitude, args.Longitude, unit,
		url.QueryEscape("temperature_2m,wind_speed_10m,weather_code"))
}

func successful(response *http.Response) error {
	switch status := response.StatusCode; {
	case status >= 200 && status < 300:
		return nil
	case status >= 300 && status < 400:
		to := response.Header.Get("Location")
		if to == "" {
			to = "another place"
		}
		return failure{code: "redirected", message: fmt.Sprintf("The server redirects to %s.", to)}
	case status == 404 || status == 410:
		return failure{code: "not_found", message: "The server has nothing at this address."}
	default:
		return failure{
			code:        "http_status",
			message:     fmt.Sprintf("The server answered with the status %d.", status),
			isTransient: slices.Contains([]int{429, 502, 503, 504}, status),
		}
	}
}

func read(body []byte) (result, error) {
	var answer struct {
		Current struct {
			Temperature *float64 `json:"temperature_2m"`
			WindSpeed   *float64 `json:"wind_speed_10m"`
			WeatherCode int      `json:"weather_code"`
		} `json:"current"`
		Units struct {
			Temperature string `json:"temperature_2m"`
		} `json:"current_units"`
	}
	err := json.Unmarshal(body, &answer)
	current := answer.Current
	if err != nil || current.Temperature == nil || current.WindSpeed == nil {
		return result{}, failure{code: "bad_answer", message: "The API did not answer with the weather."}
	}
	return result{*current.Temperature, answer.Units.Temperature, *current.WindSpeed, sky(current.WeatherCode)}, nil
}

// sky describes the codes of the World Meteorological Organization.
func sky(code int) string {
	within := func(first, last int) bool { return first <= code && code <= last }
	switch {
	case code == 0:
		return "clear"
	case within(1, 3):
		return "clouds"
	case code == 45 || code == 48:
		return "fog"
	case within(51, 57):
		return "drizzle"
	case within(61, 67) || within(80, 82):
		return "rain"
	case within(71, 77) || within(85, 86):
		return "snow"
	case within(95, 99):
		return "thunderstorm"
	}
	return "unknown"
}
