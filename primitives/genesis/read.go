package genesis

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// ReadConfig reads the configuration and skips the records. If the genesis names a records file,
// recordsFile is that name. Missing fields have nearcore's defaults or are an error. Unknown fields
// are ignored.
func ReadConfig(r io.Reader) (c *Config, recordsFile string, err error) {
	s := newScanner(r)
	c = new(Config)
	seen := make([]bool, len(configFields))
	var buf []byte
	s.object(func(key string) {
		i, known := configIndex[key]
		switch {
		case key == "records_file":
			buf = s.decode(buf, []step{{name: key}}, func(cur *cursor) { recordsFile = string(cur.str()) })
		case !known:
			s.skip()
		case seen[i]:
			s.fail(fmt.Errorf("duplicate field `%s`", key))
		default:
			seen[i] = true
			buf = s.decode(buf, []step{{name: key}}, func(cur *cursor) { cur.configValue(configFields[i].at(c)) })
		}
	})
	s.end()
	var missing []string
	for i, f := range configFields {
		switch {
		case seen[i]:
		case f.def == nil:
			missing = append(missing, "`"+f.name+"`")
		default:
			f.def(c)
		}
	}
	switch len(missing) {
	case 0:
	case 1:
		s.fail(fmt.Errorf("missing field %s", missing[0]))
	default:
		s.fail(fmt.Errorf("%d missing fields: %s", len(missing), strings.Join(missing, ", ")))
	}
	if s.err != nil {
		return nil, "", s.err
	}
	return c, recordsFile, nil
}

// decode extracts the next value, at path, and decodes it with f. It returns buf, its scratch
// space, for the next call. Errors carry the line where the value begins.
func (s *scanner) decode(buf []byte, path []step, f func(*cursor)) []byte {
	s.space()
	line, lineStart, offset := s.line, s.lineStart, s.base+int64(s.pos)
	s.path = path
	buf = s.value(buf[:0], 0)
	if s.err != nil {
		return buf
	}
	s.path = nil
	c := cursor{b: buf, path: path, removals: s.removals}
	f(&c)
	if c.err != nil {
		s.fail(&Error{Line: line + 1, Column: int(offset-lineStart) + 1, Path: c.at, Err: c.err})
	}
	return buf
}

// ReadRecords calls yield for each record, in the file's order, until yield returns an error. The
// document is either a genesis, of which only the records are read, or an array of records (a
// records file).
func ReadRecords(r io.Reader, yield func(Record) error) error {
	s := newScanner(r)
	if s.space() == '[' {
		s.records("records", yield)
		s.end()
		return s.err
	}
	found := false
	s.object(func(key string) {
		switch {
		case key != "records":
			s.skip()
		case found:
			s.fail(fmt.Errorf("duplicate field: records"))
		default:
			found = true
			if s.space() == 'n' {
				s.value(nil, 0)
				return
			}
			s.records("records", yield)
		}
	})
	s.end()
	if !found && s.err == nil {
		s.fail(fmt.Errorf("missing field: records"))
	}
	return s.err
}

// records reads an array of records; name is its name in errors.
func (s *scanner) records(name string, yield func(Record) error) {
	var buf []byte
	path := make([]step, 2, 16)
	path[0].name = name
	s.array(func() {
		var r Record
		buf = s.decode(buf, path, func(c *cursor) { r = c.record() })
		if path[1].index++; s.err == nil {
			if err := yield(r); err != nil {
				s.fail(err)
			}
		}
	})
}

// Genesis is a whole genesis in memory.
type Genesis struct {
	Config  Config
	Records []Record
}

// Parse reads a genesis with its records into memory. It is for test chains.
func Parse(in []byte) (*Genesis, error) {
	c, recordsFile, err := ReadConfig(bytes.NewReader(in))
	if err != nil {
		return nil, err
	}
	g := &Genesis{Config: *c}
	if recordsFile != "" {
		return nil, fmt.Errorf("genesis: the records are not in this file, but in %q", recordsFile)
	}
	err = ReadRecords(bytes.NewReader(in), func(r Record) error {
		g.Records = append(g.Records, r)
		return nil
	})
	return g, err
}

// parseList reads records from JSON without comments: an array or, if list is false, exactly one.
// removals allows removals among them. Errors have no position.
func parseList(in []byte, list, removals bool) (out []Record, err error) {
	s := newScanner(bytes.NewReader(in))
	s.removals = removals
	keep := func(r Record) error {
		out = append(out, r)
		return nil
	}
	if list {
		s.records("records", keep)
	} else {
		s.decode(nil, nil, func(c *cursor) { out = append(out, c.record()) })
	}
	s.end()
	if s.err != nil {
		return nil, s.err
	}
	return out, nil
}
