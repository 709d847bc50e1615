package load

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// TestReportsSayTheSameKnee: the page's heading and the terminal agree, also where a search ended
// without a knee.
func TestReportsSayTheSameKnee(t *testing.T) {
	phases := []Phase{{Rate: 50, Offered: 10, Done: 10, Latency: Latency{P99: 0.1}}, {Rate: 1708.6, Offered: 10, Done: 10, Latency: Latency{P99: 0.1}}}
	found := Knee{Rate: 100, Low: 98, High: 102, P99: 1, Kept: 0.99, Reached: true, Phases: phases}
	other := Knee{Rate: 110, Low: 108, High: 112, P99: 1, Kept: 0.99, Reached: true, Phases: phases}
	open := Knee{Rate: 1708.6, Low: 1500, P99: 1, Kept: 0.99, Phases: phases}
	most := Knee{Rate: 1708.6, AtMost: true, P99: 1, Kept: 0.99, Phases: phases}
	none := Knee{P99: 1, Kept: 0.99, Phases: phases}
	for _, c := range []struct {
		name, want string
		runs       []Knee
	}{
		{"found", "100.0/s", []Knee{found}},
		{"no upper bound", "not below 1708.6/s when 2 trials were over", []Knee{open}},
		{"at the most that was tried", "at least 1708.6/s, the most that was tried", []Knee{most}},
		{"nothing holds", "not even 50.0/s was kept up with", []Knee{none}},
		{"several", "105.0/s on average, 9.5 % between the highest and the lowest of 2", []Knee{found, other}},
		{"one of several without", "1 of 2 searches ended without one", []Knee{found, open}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := made(t, 0.01, 10, 1)
			k := Together(c.runs)
			r.Knees = &k
			var page, text bytes.Buffer
			if err := r.WriteHTML(&page); err != nil {
				t.Fatal(err)
			}
			if err := r.WriteText(&text); err != nil {
				t.Fatal(err)
			}
			if heading := regexp.MustCompile("<h2>Knee: (.*?)</h2>").FindStringSubmatch(page.String()); heading == nil || heading[1] != c.want {
				t.Errorf("the page shows %q, want %q", heading, c.want)
			}
			if !strings.Contains(text.String(), " "+c.want) {
				t.Errorf("the terminal lacks %q:\n%s", c.want, text.String())
			}
			for i := range c.runs {
				if !strings.Contains(page.String(), "<td>"+c.runs[i].rate()+"</td>") {
					t.Errorf("the table lacks search %d: %s", i+1, c.runs[i].rate())
				}
			}
		})
	}
}
