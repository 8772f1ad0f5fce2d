"""What measures, reports and advises: imported when it is first used."""
