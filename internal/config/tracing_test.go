package config

import (
	"strings"
	"testing"
)

// TestTracingIsOffByDefault: nothing is traced by default; the endpoint must be an HTTP URL; one_in
// must not be 0.
func TestTracingIsOffByDefault(t *testing.T) {
	for value, want := range map[string]string{
		`{}`: "", `{"endpoint":null}`: "", `{"endpoint":"https://collector/v1/traces","one_in":1}`: "https://collector/v1/traces",
	} {
		if c, _, err := Parse("config.json", []byte(nested("troupe.tracing", value))); err != nil || c.Tracing.Endpoint != want || c.Tracing.OneIn < 1 {
			t.Errorf("%s: tracing %+v, error %v", value, c.Tracing, err)
		}
	}
	for value, why := range map[string]string{`{"endpoint":"localhost:4318"}`: "troupe.tracing.endpoint", `{"endpoint":"ftp://x/"}`: "troupe.tracing.endpoint", `{"one_in":0}`: "troupe.tracing.one_in"} {
		if _, _, err := Parse("config.json", []byte(nested("troupe.tracing", value))); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: error %v", value, err)
		}
	}
}
