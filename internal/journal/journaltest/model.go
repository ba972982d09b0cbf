package journaltest

var modelCases []testCase
