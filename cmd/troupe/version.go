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

// build describes the source of this binary.
type build struct {
	Release string // git tag of the source; "trunk": the source has no tag
	Build   string // tag, number of commits since the tag, and whether files were changed
	Commit  string
	Go      string
}

var tag = regexp.MustCompile(`^v?[0-9]+\.[0-9]+\.[0-9]+(-(rc|beta)\.[0-9]+)?$`)

// buildInfo returns the linker's values. Missing values are taken from the go command's build
// information.
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

// versionText returns the text of --version, in neard's format.
func versionText() string {
	b := buildInfo()
	return fmt.Sprintf("troupe (release %s) (build %s) (commit %s) (go %s) (protocol %d)",
		b.Release, b.Build, b.Commit, b.Go, parameters.Newest(primitives.NumberingRelease))
}

func newVersion(*app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    "Version prints the release, the build, the commit, the Go version, and the newest protocol version.",
		Example: "  troupe version",
		Args:    cobra.NoArgs,
		Run:     func(cmd *cobra.Command, _ []string) { say(cmd, "%s", versionText()) },
	}
}
