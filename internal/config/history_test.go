package config

import (
	"strings"
	"testing"
)

// TestHistorySourceIsAFeedWithOutcomes: older blocks are imported only from feeds with outcomes. Whether
// the node is an archive is checked later, because of run's flag --archive.
func TestHistorySourceIsAFeedWithOutcomes(t *testing.T) {
	for _, x := range []struct{ archive, source, want string }{
		{"true", `"neardata:https://a"`, ""},
		{"true", `"lake:http://a/b"`, ""},
		{"true", `"lake:folder"`, ""},
		{"true", `"lake:/a/b"`, ""},
		{"true", `null`, ""},
		{"false", `null`, ""},
		{"false", `"lake:/a/b"`, ""},
		{"true", `""`, "null for the default"},
		{"true", `"rpc:http://a"`, "neardata:URL"},
		{"true", `"http://a"`, "neardata:URL"},
		{"true", `"lake:"`, "neardata:URL"},
		{"true", `"neardata:folder"`, "neardata:URL"},
		{"true", `"lake:ftp://a"`, "neardata:URL"},
	} {
		c, _, err := Parse("config.json", []byte(`{"archive":`+x.archive+`,"troupe":{"history":{"source":`+x.source+`}}}`))
		switch {
		case x.want != "" && (err == nil || !strings.Contains(err.Error(), "troupe.history.source") || !strings.Contains(err.Error(), x.want)):
			t.Errorf("%s, archive %s: %v, want %s", x.source, x.archive, err, x.want)
		case x.want == "" && err != nil:
			t.Errorf("%s, archive %s: %v", x.source, x.archive, err)
		case x.want == "" && x.source != "null" && c.History.Source != strings.Trim(x.source, `"`):
			t.Errorf("%s: %+v", x.source, c.History)
		}
	}
}
