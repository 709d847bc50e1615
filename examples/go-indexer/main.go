// Command go-indexer prints the events (NEP-297) of a chain's contracts, one JSON object a line. It
// continues after the last printed block when it is started again.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/troupe-chain/troupe/indexer"
)

// block is what this program reads of a block: the JSON of nearcore's indexer framework.
type block struct {
	Block struct {
		Header struct{ Height uint64 }
	}
	Shards []struct {
		Outcomes []struct {
			Execution struct {
				Outcome struct {
					Executor string `json:"executor_id"`
					Logs     []string
					Status   json.RawMessage
				}
			} `json:"execution_outcome"`
		} `json:"receipt_execution_outcomes"`
	}
}

// event is a line of the output.
type event struct {
	Height   uint64          `json:"height"`
	Contract string          `json:"contract"`
	Standard string          `json:"standard"`
	Event    string          `json:"event"`
	Data     json.RawMessage `json:"data"`
}

func main() {
	url := flag.String("url", "http://127.0.0.1:3030", "JSON-RPC of a Troupe node")
	file := flag.String("cursor", "cursor.txt", "file that keeps the last printed block")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cursor := indexer.CursorFile(*file)
	last, err := cursor.Load()
	if err != nil {
		log.Fatal(err)
	}
	err = indexer.Run(ctx, indexer.Config{
		Source: indexer.URL(*url), SyncMode: indexer.FromInterruption(last).Or(0),
		OnTrouble: func(err error) { log.Print(err) }, // it is tried again
	}, func(_ context.Context, m *indexer.Message) error {
		text, err := m.JSON()
		if err != nil {
			return err
		}
		if err := show(text); err != nil {
			return err
		}
		return cursor.Store(m.Cursor)
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

// show prints the events of a block.
func show(text []byte) error {
	var b block
	if err := json.Unmarshal(text, &b); err != nil {
		return err
	}
	for _, s := range b.Shards {
		for _, o := range s.Outcomes {
			of := &o.Execution.Outcome
			if strings.HasPrefix(string(of.Status), `{"Failure"`) {
				continue // its effects are void
			}
			for _, l := range of.Logs {
				e := event{Height: b.Block.Header.Height, Contract: of.Executor}
				text, ok := strings.CutPrefix(l, "EVENT_JSON:")
				if !ok || json.Unmarshal([]byte(text), &e) != nil {
					continue
				}
				e.Height, e.Contract = b.Block.Header.Height, of.Executor // the log may name others
				line, err := json.Marshal(e)
				if err != nil {
					return err
				}
				if _, err := fmt.Println(string(line)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
