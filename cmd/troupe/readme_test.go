package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// TestReadmeKeys wants the README's table to list Troupe's own keys, and only those.
func TestReadmeKeys(t *testing.T) {
	c, _, err := config.Parse("config.json", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	var walk func(prefix string, d *config.Document)
	walk = func(prefix string, d *config.Document) {
		for _, k := range d.Keys() {
			v, _ := d.Get(k)
			if sub, ok := v.(*config.Document); ok && !slices.Equal(sub.Keys(), []string{"secs", "nanos"}) {
				walk(prefix+k+".", sub)
				continue
			}
			want = append(want, prefix+k)
		}
	}
	own, _ := c.Document.Get("troupe")
	walk("troupe.", own.(*config.Document))
	for i := range limits.Table {
		want = append(want, "troupe.rpc."+limits.Table[i].Key)
	}
	readme := mustRead(t, "../../README.md")
	var got []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(troupe\\.[^`]*)` \\|").FindAllStringSubmatch(readme, -1) {
		got = append(got, m[1])
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("keys = %v\nwant %v", got, want)
	}
}

// TestReadmeCommands wants each command to be in the README.
func TestReadmeCommands(t *testing.T) {
	readme := mustRead(t, "../../README.md")
	for _, c := range newRoot(new(app)).Commands() {
		if !c.Hidden && c.Name() != "help" && c.Name() != "completion" && !strings.Contains(readme, "| `"+c.Name()+"` |") {
			t.Errorf("the README says nothing of %s", c.Name())
		}
	}
}
