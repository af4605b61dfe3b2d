package web

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"tollgate.dev/tool"
)

func serve(t *testing.T) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		body, _ := io.ReadAll(in.Body)
		switch in.URL.Path {
		case "/slow":
			<-in.Context().Done()
		case "/moved":
			http.Redirect(out, in, "/echo", http.StatusFound)
		default:
			out.Header().Add("X-Asked", in.Header.Get("X-Asked"))
			io.WriteString(out, in.Method+" "+string(body))
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func TestRequestsGoThroughTheHost(t *testing.T) {
	server := serve(t)
	client := http.Client{Transport: Transport{}}
	request, _ := http.NewRequest("PUT", server.URL+"/echo", http.NoBody)
	request.Header.Set("X-Asked", "yes")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(response.Body)
	if string(body) != "PUT " || response.Header.Get("X-Asked") != "yes" || response.StatusCode != 200 {
		t.Errorf("%s %v", body, response)
	}
	if response, err = client.Get(server.URL + "/moved"); err != nil || response.Request.URL.Path != "/echo" {
		t.Errorf("a redirect is followed by the client: %v %v", response, err)
	}
}

func TestErrorsHaveCodes(t *testing.T) {
	server := serve(t)
	for _, one := range []struct {
		client http.Client
		path   string
		code   string
	}{
		{http.Client{Transport: Transport{MaxBodyBytes: 2}}, "/echo", "too_large"},
	} {
		_, err := one.client.Get(server.URL + one.path)
		var failure *tool.HTTPError
		if !errors.As(err, &failure) || failure.Code != one.code {
			t.Errorf("%s: %v", one.path, err)
		}
	}
	// A client's own timeout hides the code; a context's does not.
	client := http.Client{Transport: Transport{}, Timeout: 50 * time.Millisecond}
	_, err := client.Get(server.URL + "/slow")
	if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Error(err)
	}
	brief, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer stop()
	request, _ := http.NewRequestWithContext(brief, "GET", server.URL+"/slow", nil)
	_, err = (&http.Client{Transport: Transport{}}).Do(request)
	var failure *tool.HTTPError
	if !errors.As(err, &failure) || failure.Code != "timed_out" {
		t.Error(err)
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	request, _ = http.NewRequestWithContext(over, "GET", server.URL, nil)
	if _, err := (Transport{}).RoundTrip(request); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
