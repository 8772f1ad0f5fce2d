"""Reports on what a loader did: plain lines, a page, a trace, metrics, all made of the profile in
`loader.stats()`.

print(loader.report())                        # millrace.Report
loader.report().save("report.html")
millrace.prometheus(loader)
"""
