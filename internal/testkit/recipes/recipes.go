// Package recipes runs the commands of README.md and of docs/guide as a reader types them.
//
// A comment line directly above a fenced block says how the block is run. Its parts are separated
// by "; ":
//
//	<!-- terminal 1 -->                     type the block in terminal 1; every command must succeed
//	<!-- terminal 1; until "listens" -->    the last command keeps running; go on when it prints this
//	<!-- terminal 1; after Ctrl-C -->       first stop the command that keeps running there
//	<!-- terminal 2; prints "amount" -->    the block must print this
//	<!-- terminal 2; needs websocat -->     skip the block where this program is missing
//	<!-- file transfer.mjs -->              write the block to this file
//	<!-- not run: reason -->                a command that no test can run
//
// A page begins with empty folders and no process. All its terminals begin in a folder that looks
// like a clone of the repository after `make build`.
//
//	in      pages of Markdown, a folder with a troupe program
//	out     Blocks, Run
//	state   the processes of a page, all ended when Run returns
//	units   none
//	bound   a block may take Options.Wait
//	errors  reported to the test
//	source  our own
package recipes

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Block is a fenced block of a page, with the directive above it.
type Block struct {
	Page, Language, Text string
	Line                 int // line of the opening fence in the page, from 1

	Terminal string // number of the terminal in which the block is typed; empty: it is not typed
	// text after which the next block is run although the last command keeps running; empty: wait
	// until it ends
	Until  string
	Prints []string // texts that the output must contain
	Needs  []string // names of the programs without which the block is skipped
	CtrlC  bool
	File   string
	NotRun string // reason why no test runs the block; empty: it is run
}

var (
	directive = regexp.MustCompile(`^<!-- ((?:terminal|file|not run).*) -->$`)
	quoted    = regexp.MustCompile(`^(until|prints) "(.+)"$`)
)

// Blocks returns the fenced blocks of a page. A shell block (language sh) must have a directive;
// other blocks need none.
func Blocks(page, markdown string) (blocks []Block, err error) {
	var errs []error
	lines := strings.Split(markdown, "\n")
	for i := 0; i < len(lines); i++ {
		language, fence := strings.CutPrefix(lines[i], "```")
		if !fence {
			continue
		}
		b := Block{Page: page, Line: i + 1, Language: language}
		for i++; i < len(lines) && lines[i] != "```"; i++ {
			b.Text += lines[i] + "\n"
		}
		if i == len(lines) {
			return nil, fmt.Errorf("%s:%d: the code block is not closed", page, b.Line)
		}
		if above := b.Line - 2; above >= 0 {
			if m := directive.FindStringSubmatch(lines[above]); m != nil {
				errs = append(errs, b.direct(m[1]))
			}
		}
		switch {
		case language == "":
			errs = append(errs, fmt.Errorf("%s:%d: the code block names no language", page, b.Line))
		case language == "sh" && b.Terminal == "" && b.NotRun == "":
			errs = append(errs, fmt.Errorf("%s:%d: add a directive 'terminal N' or 'not run: REASON' above the block", page, b.Line))
		case language != "sh" && b.Terminal != "":
			errs = append(errs, fmt.Errorf("%s:%d: directive 'terminal' is for blocks of language sh only", page, b.Line))
		}
		blocks = append(blocks, b)
	}
	return blocks, errors.Join(errs...)
}

// direct reads a directive, which says how the block is run.
func (b *Block) direct(text string) error {
	if reason, ok := strings.CutPrefix(text, "not run: "); ok {
		b.NotRun = reason
		return nil
	}
	for _, part := range strings.Split(text, "; ") {
		m := quoted.FindStringSubmatch(part)
		word, rest, _ := strings.Cut(part, " ")
		switch {
		case m != nil && m[1] == "until":
			b.Until = m[2]
		case m != nil:
			b.Prints = append(b.Prints, m[2])
		case part == "after Ctrl-C":
			b.CtrlC = true
		case word == "terminal" && rest != "":
			b.Terminal = rest
		case word == "file" && rest != "":
			b.File = rest
		case word == "needs" && rest != "":
			b.Needs = strings.Fields(rest)
		default:
			return fmt.Errorf("%s:%d: unknown directive %q", b.Page, b.Line, part)
		}
	}
	return nil
}
