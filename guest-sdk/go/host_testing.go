//go:build !wasip1

package tool

// Reports are the reports of tools in a test.
var Reports []string

// Cancel is what IsCancelled returns in a test.
var Cancel bool

func reportProgress(_ Progress, _ float64, message string) { Reports = append(Reports, message) }
func reportActivity(kind, content string)                  { Reports = append(Reports, kind+": "+content) }
func reportActivityDelta(kind, patch string)               { Reports = append(Reports, kind+": "+patch) }
func streamOutput(delta string)                            { Reports = append(Reports, delta) }
func log(_ Level, message string)                          { Reports = append(Reports, message) }
func readState(string) (string, bool)                      { return "", false }
func isCancelled() bool                                    { return Cancel }
