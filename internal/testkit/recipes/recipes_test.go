package recipes

import (
	"strings"
	"testing"
)

func TestBlocksReadDirectives(t *testing.T) {
	page := "# A page\n\n<!-- terminal 1; until \"it listens\" -->\n```sh\nrun me\n```\n\n<!-- file a.js -->\n```js\nlet a\n```\n" +
		"\n```json\n{}\n```\n<!-- not run: it needs the moon -->\n```sh\nmoon\n```\n<!-- terminal 2; after Ctrl-C; prints \"a; b\" -->\n```sh\n\n```\n"
	page = strings.ReplaceAll(page, "a; b", "a, b")
	blocks, err := Blocks("page.md", page)
	if err != nil || len(blocks) != 5 {
		t.Fatalf("%d blocks, %v", len(blocks), err)
	}
	if b := blocks[0]; b.Terminal != "1" || b.Until != "it listens" || b.Text != "run me\n" || b.Line != 4 || b.Language != "sh" {
		t.Errorf("got %+v", b)
	}
	if b := blocks[1]; b.File != "a.js" || b.Terminal != "" {
		t.Errorf("got %+v", b)
	}
	if b := blocks[3]; b.NotRun != "it needs the moon" {
		t.Errorf("got %+v", b)
	}
	if b := blocks[4]; b.Terminal != "2" || !b.CtrlC || len(b.Prints) != 1 || b.Prints[0] != "a, b" {
		t.Errorf("got %+v", b)
	}
}

func TestBlocksRefuseMissingDirectives(t *testing.T) {
	for name, page := range map[string]string{
		"a shell block without a directive": "```sh\nls\n```\n",
		"a block without a language":        "```\nls\n```\n",
		"a block without an end":            "```sh\nls\n",
		"an unknown directive":              "<!-- terminal 1; slowly -->\n```sh\nls\n```\n",
		"a typed block of another language": "<!-- terminal 1 -->\n```json\n{}\n```\n",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Blocks("page.md", page); err == nil {
				t.Errorf("%s is taken", name)
			}
		})
	}
}

func TestRunTypesBlocks(t *testing.T) {
	page := "<!-- terminal 1 -->\n```sh\nx=one\nmkdir /tmp/here\n```\n" +
		"<!-- terminal 2; until \"ready\" -->\n```sh\necho ready; sleep 1000\n```\n" +
		"<!-- terminal 1; prints \"one\" -->\n```sh\nls /tmp/here\necho $x\n```\n" +
		"<!-- terminal 2; after Ctrl-C; prints \"again\" -->\n```sh\necho again\n```\n"
	blocks, err := Blocks("page.md", page)
	if err != nil {
		t.Fatal(err)
	}
	Run(t, blocks, Options{Folder: t.TempDir()})
}
