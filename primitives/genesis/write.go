package genesis

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"iter"
)

// Write writes genesis.json as neard does: two spaces of indent, struct order, no final newline.
func Write(w io.Writer, c *Config, records iter.Seq[Record]) error {
	out := bufio.NewWriterSize(w, 64<<10) // the first error sticks and is returned by Flush
	writeConfig(out, c)
	_, _ = out.WriteString(",\n  \"records\": [")
	n := 0
	var compact, pretty bytes.Buffer
	for r := range records {
		if n > 0 {
			_ = out.WriteByte(',')
		}
		n++
		compact.Reset()
		pretty.Reset()
		compact.Write(AppendRecord(compact.AvailableBuffer(), r))
		if err := json.Indent(&pretty, compact.Bytes(), "    ", "  "); err != nil {
			return err
		}
		_, _ = out.WriteString("\n    ")
		_, _ = out.Write(pretty.Bytes())
	}
	if n > 0 {
		_, _ = out.WriteString("\n  ")
	}
	_, _ = out.WriteString("]\n}")
	return out.Flush()
}

// WriteConfig writes a genesis.json whose records are in a separate file, as a streamed state dump
// has it.
func WriteConfig(w io.Writer, c *Config) error {
	out := bufio.NewWriter(w)
	writeConfig(out, c)
	_, _ = out.WriteString("\n}")
	return out.Flush()
}

// writeConfig writes the fields, without the end of the object.
func writeConfig(out *bufio.Writer, c *Config) {
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, AppendConfig(nil, c), "", "  "); err != nil {
		panic("genesis: our own JSON: " + err.Error())
	}
	_, _ = out.Write(bytes.TrimSuffix(pretty.Bytes(), []byte("\n}")))
}
