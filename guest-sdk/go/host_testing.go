//go:build !wasip1

package tool

// Reports are the reports of tools in a test.
var Reports []string

// Cancel is what IsCancelled returns in a test.
var Cancel bool

// Settings are the settings in a test.
var Settings map[string]string

// ChildOutcomes are the outcomes of the next child runs in a test.
var ChildOutcomes []ChildOutcome

// Attachments are the images, files and links that tools attached in a test: their URI,
// or their media type if they have none.
var Attachments []string

// Children are the child runs that tools asked for in a test.
var Children []ChildRun

func setting(name string) (string, bool) {
	value, is := Settings[name]
	return value, is
}

func runChild(child ChildRun, _ [][2]string) (ChildOutcome, error) {
	Children = append(Children, child)
	if len(ChildOutcomes) == 0 {
		return ChildOutcome{}, childError(0, child.Agent, nil, 0)
	}
	outcome := ChildOutcomes[0]
	ChildOutcomes = ChildOutcomes[1:]
	return outcome, nil
}

func attach(mimeType string, _ []byte, uri string) string {
	if uri == "" {
		uri = mimeType
	}
	Attachments = append(Attachments, uri)
	return ""
}

func link(uri, _, _ string) string {
	Attachments = append(Attachments, uri)
	return ""
}

func reportProgress(_ Progress, _ float64, message string) { Reports = append(Reports, message) }
func reportActivity(kind, content string)                  { Reports = append(Reports, kind+": "+content) }
func reportActivityDelta(kind, patch string)               { Reports = append(Reports, kind+": "+patch) }
func streamOutput(delta string)                            { Reports = append(Reports, delta) }
func log(_ Level, message string)                          { Reports = append(Reports, message) }
func readState(string) (string, bool)                      { return "", false }
func isCancelled() bool                                    { return Cancel }
