package main

import (
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Set by the linker: -X main.version=$(git describe) -X main.commit=$(git rev-parse HEAD).
var version, commit string

// build says what this binary was made from.
type build struct {
	Release string // the tag it was built at; "trunk" for anything between
	Build   string // the tag, commits since, and whether files were changed
	Commit  string
	Go      string
}

var tag = regexp.MustCompile(`^v?[0-9]+\.[0-9]+\.[0-9]+(-(rc|beta)\.[0-9]+)?$`)

// buildInfo takes what the linker was not told from what the go command notes.
func buildInfo() build {
	b := build{Release: "trunk", Build: version, Commit: commit, Go: runtime.Version()}
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		info = &debug.BuildInfo{}
	}
	if b.Build == "" && info.Main.Version != "(devel)" {
		b.Build = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && b.Commit == "" {
			b.Commit = s.Value
		}
	}
	if tag.MatchString(b.Build) {
		b.Release = b.Build
	}
	for _, s := range []*string{&b.Build, &b.Commit} {
		if *s == "" {
			*s = "unknown"
		}
	}
	return b
}

// versionText is what --version prints, in the form of neard's.
func versionText() string {
	b := buildInfo()
	return fmt.Sprintf("troupe (release %s) (build %s) (commit %s) (go %s) (protocol %d)", b.Release, b.Build, b.Commit, b.Go, parameters.Newest(primitives.NumberingRelease))
}

func newVersion(*app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Say which version this is",
		Long:    "Prints the release, the commit it was built from, and the newest protocol version it executes.",
		Example: "  troupe version",
		Args:    cobra.NoArgs,
		Run:     func(cmd *cobra.Command, _ []string) { say(cmd, "%s", versionText()) },
	}
}
