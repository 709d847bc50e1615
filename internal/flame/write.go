package flame

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/google/pprof/profile"
)

type speedscope struct {
	Schema string `json:"$schema"`
	Shared struct {
		Frames []speedscopeFrame `json:"frames"`
	} `json:"shared"`
	Profiles []speedscopeProfile `json:"profiles"`
	Exporter string              `json:"exporter"`
}

type speedscopeFrame struct {
	Name string `json:"name"`
}

type speedscopeProfile struct {
	Type   string            `json:"type"`
	Name   string            `json:"name"`
	Unit   string            `json:"unit"`
	Start  uint64            `json:"startValue"`
	End    uint64            `json:"endValue"`
	Events []speedscopeEvent `json:"events"`
}

type speedscopeEvent struct {
	Type  string `json:"type"`
	Frame int    `json:"frame"`
	At    uint64 `json:"at"`
}

// WriteSpeedscope writes all profiles as one file for speedscope.app. Every profile must be closed.
func WriteSpeedscope(w io.Writer, profiles []*Profile) error {
	out := speedscope{Schema: "https://www.speedscope.app/file-format-schema.json", Exporter: "troupe"}
	out.Shared.Frames = []speedscopeFrame{}
	for _, p := range profiles {
		base := len(out.Shared.Frames)
		for _, name := range p.frames {
			out.Shared.Frames = append(out.Shared.Frames, speedscopeFrame{name})
		}
		x := speedscopeProfile{Type: "evented", Name: p.Name, Unit: "none", End: p.at, Events: []speedscopeEvent{}}
		for _, e := range p.events {
			kind := "C"
			if e.open {
				kind = "O"
			}
			x.Events = append(x.Events, speedscopeEvent{kind, base + e.frame, e.at})
		}
		out.Profiles = append(out.Profiles, x)
	}
	return json.NewEncoder(w).Encode(&out)
}

// ReadSpeedscope reads a file that WriteSpeedscope wrote.
func ReadSpeedscope(r io.Reader) ([]*Profile, error) {
	var in speedscope
	if err := json.NewDecoder(r).Decode(&in); err != nil {
		return nil, fmt.Errorf("flame: %w", err)
	}
	var out []*Profile
	for i := range in.Profiles {
		x := &in.Profiles[i]
		p := New(x.Name)
		for _, e := range x.Events {
			switch {
			case e.Type == "C":
				p.End(e.At)
			case e.Frame < 0 || e.Frame >= len(in.Shared.Frames):
				return nil, fmt.Errorf("flame: profile %q has no frame %d", x.Name, e.Frame)
			default:
				p.Begin(in.Shared.Frames[e.Frame].Name, e.At)
			}
		}
		p.Close(x.End)
		out = append(out, p)
	}
	return out, nil
}

// WritePprof writes all profiles as one gzipped file for `go tool pprof`, each profile under a
// frame with the profile's name.
func WritePprof(w io.Writer, profiles []*Profile) error {
	out := &profile.Profile{
		SampleType:        []*profile.ValueType{{Type: "calls", Unit: "count"}, {Type: "gas", Unit: "gas"}},
		DefaultSampleType: "gas",
	}
	locations := map[string]*profile.Location{}
	location := func(name string) *profile.Location {
		l, ok := locations[name]
		if !ok {
			id := uint64(len(out.Location) + 1)
			f := &profile.Function{ID: id, Name: name, SystemName: name}
			l = &profile.Location{ID: id, Line: []profile.Line{{Function: f}}}
			out.Function, out.Location, locations[name] = append(out.Function, f), append(out.Location, l), l
		}
		return l
	}
	for _, p := range profiles {
		for _, s := range p.samples() {
			x := &profile.Sample{Value: []int64{s.calls, int64(s.gas)}} // gas of a call is far below 2^63
			for i := len(s.stack) - 1; i >= 0; i-- {
				x.Location = append(x.Location, location(p.frames[s.stack[i]]))
			}
			x.Location = append(x.Location, location(p.Name))
			out.Sample = append(out.Sample, x)
		}
	}
	if err := out.CheckValid(); err != nil {
		return fmt.Errorf("flame: %w", err)
	}
	return out.Write(w)
}
