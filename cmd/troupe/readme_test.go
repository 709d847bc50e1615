package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/recipes"
)

// asCommand is the variable that makes the test's own program the command.
const asCommand = "TROUPE_TEST_AS_COMMAND"

// TestReadmeListsEveryCommand requires that README lists each command, and only commands.
func TestReadmeListsEveryCommand(t *testing.T) {
	readme := mustRead(t, "../../README.md")
	names := map[string]bool{}
	for _, c := range newRoot(new(app)).Commands() {
		names[c.Name()] = true
		if !c.Hidden && c.Name() != "help" && !strings.Contains(readme, "`"+c.Name()+"`") && !strings.Contains(readme, "`troupe "+c.Name()+"`") {
			t.Errorf("the README does not mention %s", c.Name())
		}
	}
	_, table, _ := strings.Cut(readme, "\n## Commands\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := 0
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*`) \\|").FindAllStringSubmatch(table, -1) {
		for _, name := range strings.Split(row[1], ", ") {
			if rows++; !names[strings.Trim(name, "`")] {
				t.Errorf("the README names %s, which is no command", name)
			}
		}
	}
	if rows != 24 {
		t.Errorf("the README's table has %d commands, want 24", rows)
	}
	if len(readme) > 9<<10 {
		t.Errorf("README.md has %d bytes, at most %d", len(readme), 9<<10)
	}
}

// TestCommandsOfGuidesWork types the commands of README.md and of each guide, each page with new
// home folders. internal/testkit/e2e runs those that need a network or programs other than curl and make.
// notrun.txt of internal/testkit/recipes lists the commands that no test runs, with the reason given on the
// page.
func TestCommandsOfGuidesWork(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "make"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("skipped: no %s", tool)
		}
	}
	pages, err := filepath.Glob(repository + "/docs/guide/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d guides, %v", len(pages), err)
	}
	var skipped []string
	for _, page := range append(pages, repository+"/README.md") {
		name := strings.TrimPrefix(page, repository+"/")
		blocks, err := recipes.Blocks(name, mustRead(t, page))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, b := range blocks {
			if b.NotRun != "" {
				first, _, _ := strings.Cut(b.Text, "\n")
				skipped = append(skipped, name+": "+first+": "+b.NotRun)
			}
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			recipes.Run(t, blocks, recipes.Options{Folder: builtClone(t), Has: func(string) bool { return false },
				// as after make build
				Files: map[string]string{"Makefile": mustRead(t, repository+"/Makefile")}, Env: []string{"GO=true"}})
		})
	}
	slices.Sort(skipped)
	if want := strings.Split(strings.TrimSpace(mustRead(t, repository+"/internal/testkit/recipes/testdata/notrun.txt")), "\n"); !slices.Equal(skipped, want) {
		t.Errorf("commands that are not run:\n%s\nwant what internal/testkit/recipes/testdata/notrun.txt has:\n%s", strings.Join(skipped, "\n"), strings.Join(want, "\n"))
	}
}

// builtClone returns a folder like a clone of the repository after `make build`, with the test's
// own program as its troupe.
func builtClone(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	program := "#!/bin/sh\n" + asCommand + "=1 exec " + self + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "bin", "troupe"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}
